import type { OutgoingHttpHeaders } from 'node:http';
import type { StoredFile } from '@stevedore/client';
import {
  answerFile,
  type FileAnswer,
  type Presentation,
  sendAnswer,
  type UnsentBytes,
} from '@stevedore/middleware/core';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Sends what `answerRequest` gave, past the framework: it would read a long file ahead of its client. */
export function sendFile(
  reply: FastifyReply,
  answer: FileAnswer,
  unsent: UnsentBytes,
): FastifyReply {
  const headers = reply.getHeaders() as OutgoingHttpHeaders;
  sendAnswer(reply.hijack().raw, answer, unsent, headers);
  return reply;
}

/** What a GET or HEAD of a stored file is answered, as values. */
export function answerRequest(
  { method, headers, query, raw }: FastifyRequest,
  file: StoredFile,
  presentation: Presentation,
  unsent: UnsentBytes,
  asAttachment = false,
): Promise<FileAnswer> {
  // `?download`, with any value.
  const download = asAttachment || Object.hasOwn(query as object, 'download');
  return answerFile({ method, headers, download }, file, presentation, {
    unsent,
    isGone: () => raw.socket.destroyed,
  });
}
