import type { Receipt } from '@stevedore/client';
import {
  fileUrl,
  receiptJson,
  receiveUpload,
  type UploadContext,
} from '@stevedore/middleware/core';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** `POST /files`: one file gives an object and its Location, several an array. */
export function uploadHandler(
  context: UploadContext,
): (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply> {
  return async (request, reply) => {
    const receipts = await receiveUpload(request.raw, reply.raw, context);
    return sendReceipts(reply, receipts);
  };
}

function sendReceipts(reply: FastifyReply, receipts: readonly Receipt[]): FastifyReply {
  reply.code(201).header('cache-control', 'no-store');
  const [first] = receipts;
  if (receipts.length !== 1 || !first) return reply.send(receipts.map(receiptJson));
  return reply.header('location', fileUrl(first.key)).send(receiptJson(first));
}
