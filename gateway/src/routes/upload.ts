import type { IncomingMessage } from 'node:http';
import type { Receipt } from '@stevedore/client';
import {
  closeAfterReply,
  fileUrl,
  hasUnreadBody,
  IdempotentUploads,
  narrowPolicy,
  receiptJson,
  receiveUpload,
  type UploadContext,
  uploadPath,
} from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import type { Access, AskedBy } from '../access/access.js';
import type { Policies } from '../access/policies.js';
import { route } from '../http/methods.js';
import { POLICY_UPLOAD } from '../openapi/operations.js';

/**
 * `POST /files` and, for every policy, `POST /uploads/NAME`. One file gives an
 * object and its Location, several an array.
 */
export interface UploadRoutes {
  readonly context: UploadContext;
  readonly access: Access;
  readonly policies: Policies;
}

export function uploadRoutes(app: FastifyInstance, routes: UploadRoutes): void {
  const repeats = new IdempotentUploads(routes.context);
  route(app, '/files', { POST: handler(routes, repeats, undefined) });
  for (const name of Object.keys(routes.policies)) {
    if (name === 'default') continue;
    const handlers = { POST: handler(routes, repeats, name) };
    route(app, `/uploads/${name}`, handlers, POLICY_UPLOAD);
  }
}

function handler(
  { context, access, policies }: UploadRoutes,
  repeats: IdempotentUploads,
  name: string | undefined,
): RouteHandlerMethod {
  const own = policies[name ?? 'default'] ?? {};
  const path = uploadPath(name);
  return async (request, reply) => {
    const { raw } = request;
    const { headers, query } = request as AskedBy;
    const maxBytes = announcedBytes(raw, own.maxFileBytes ?? context.limits.maxFileBytes);
    const grant = access.upload({ headers, query, maxBytes }, path);
    let storedBytes: number | undefined;
    const receive = async (once: Uint8Array | undefined): Promise<Receipt[]> => {
      grant.begin();
      const { store, limits, guard } = context;
      const policy = narrowPolicy(own, grant.policy);
      const receiving = { store, limits, guard, policy, once };
      const receipts = await receiveUpload(raw, reply.raw, receiving);
      storedBytes = receipts.reduce((sum, { size }) => sum + size, 0);
      return receipts;
    };
    try {
      const { receipts, replayed } = grant.mark
        ? await repeats.runOnce(raw, grant.mark, receive)
        : await repeats.run(raw, `${grant.scope} ${path}`, receive);
      if (replayed) {
        storedBytes = 0;
        leaveBody(request, reply, context);
      }
      return sendReceipts(reply, receipts);
    } finally {
      grant.done(storedBytes);
    }
  };
}

/** `limitBytes` for a body that does not say how long it is. */
function announcedBytes({ headers }: IncomingMessage, limitBytes: number): number {
  const length = headers['content-length'];
  return length === undefined ? limitBytes : Number(length);
}

/** The answer is known without the body: what is left of it is not waited for. */
function leaveBody({ raw }: FastifyRequest, reply: FastifyReply, { limits }: UploadContext): void {
  reply.header('idempotency-replayed', 'true');
  if (!hasUnreadBody(raw)) return;
  reply.header('connection', 'close');
  closeAfterReply(raw.socket, limits);
}

function sendReceipts(reply: FastifyReply, receipts: readonly Receipt[]): FastifyReply {
  reply.code(201).header('cache-control', 'no-store');
  const [first] = receipts;
  // Written here: choosing between the two by their schema would cost more than the rest.
  reply.header('content-type', 'application/json; charset=utf-8');
  if (receipts.length !== 1 || !first) {
    return reply.send(JSON.stringify(receipts.map(receiptJson)));
  }
  return reply.header('location', fileUrl(first.key)).send(JSON.stringify(receiptJson(first)));
}
