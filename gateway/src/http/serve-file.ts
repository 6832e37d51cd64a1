import type { StoredFile } from '@stevedore/client';
import { answerFile, type Presentation } from '@stevedore/middleware/core';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Answers a GET or HEAD with a stored file. */
export async function serveFile(
  request: FastifyRequest,
  reply: FastifyReply,
  file: StoredFile,
  presentation: Presentation,
  asAttachment = false,
): Promise<FastifyReply> {
  // `?download`, with any value.
  const download = asAttachment || Object.hasOwn(request.query as object, 'download');
  const { method, headers } = request;
  const answer = await answerFile({ method, headers, download }, file, presentation);
  return reply.code(answer.status).headers(answer.headers).send(answer.content);
}
