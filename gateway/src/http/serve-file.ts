import type { StoredFile } from '@stevedore/client';
import { answerFile, type FileAnswer, type Presentation } from '@stevedore/middleware/core';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Answers a GET or HEAD with a stored file. */
export async function serveFile(
  request: FastifyRequest,
  reply: FastifyReply,
  file: StoredFile,
  presentation: Presentation,
  asAttachment = false,
): Promise<FastifyReply> {
  const answer = await answerRequest(request, file, presentation, asAttachment);
  return reply.code(answer.status).headers(answer.headers).send(answer.content);
}

/** What the request is answered, as values. */
export function answerRequest(
  { method, headers, query }: FastifyRequest,
  file: StoredFile,
  presentation: Presentation,
  asAttachment = false,
): Promise<FileAnswer> {
  // `?download`, with any value.
  const download = asAttachment || Object.hasOwn(query as object, 'download');
  return answerFile({ method, headers, download }, file, presentation);
}
