import type { IncomingMessage } from 'node:http';
import type { Receipt } from '@stevedore/client';
import {
  ClientRoom,
  essence,
  fileUrl,
  IdempotentUploads,
  narrowPolicy,
  receiptJson,
  receiveUpload,
  type UploadContext,
  type UploadPolicy,
  uploadPath,
} from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyReply, RouteHandlerMethod } from 'fastify';
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
  const room = new ClientRoom(routes.context.limits.maxClientBytes);
  route(app, '/files', { POST: handler(routes, repeats, room, undefined) });
  for (const name of Object.keys(routes.policies)) {
    if (name === 'default') continue;
    const handlers = { POST: handler(routes, repeats, room, name) };
    route(app, `/uploads/${name}`, handlers, POLICY_UPLOAD);
  }
}

function handler(
  { context, access, policies }: UploadRoutes,
  repeats: IdempotentUploads,
  room: ClientRoom,
  name: string | undefined,
): RouteHandlerMethod {
  const own = policies[name ?? 'default'] ?? {};
  const path = uploadPath(name);
  return async (request, reply) => {
    const { raw } = request;
    const { headers, query } = request as AskedBy;
    const maxBytes = mostBytes(raw, own, context.limits.maxFileBytes);
    const grant = access.upload({ headers, query, maxBytes }, path);
    // Without keys, all requests from one address are one client's.
    const client = grant.scope === '' ? request.ip : grant.scope;
    let storedBytes: number | undefined;
    const receive = async (once: Uint8Array | undefined): Promise<Receipt[]> => {
      grant.begin();
      const { store, limits, guard } = context;
      const policy = narrowPolicy(own, grant.policy);
      const receiving = { store, limits, guard, policy, once, room: room.of(client) };
      const receipts = await receiveUpload(raw, reply.raw, receiving);
      storedBytes = receipts.reduce((sum, { size }) => sum + size, 0);
      return receipts;
    };
    try {
      const { receipts, replayed } = grant.mark
        ? await repeats.runOnce(raw, reply.raw, grant.mark, receive)
        : await repeats.run(raw, reply.raw, `${grant.scope} ${path}`, receive);
      if (replayed) {
        storedBytes = 0;
        reply.header('idempotency-replayed', 'true');
      }
      return sendReceipts(reply, receipts);
    } finally {
      grant.done(storedBytes);
    }
  };
}

/** What the upload may store, by its length or, where it does not say, by what is taken. */
function mostBytes({ headers }: IncomingMessage, own: UploadPolicy, serverBytes: number): number {
  const length = headers['content-length'];
  if (length !== undefined) return Number(length);
  const isForm = essence(headers['content-type'] ?? '') === 'multipart/form-data';
  return (isForm ? own.maxTotalBytes : own.maxFileBytes) ?? serverBytes;
}

function sendReceipts(reply: FastifyReply, receipts: readonly Receipt[]): FastifyReply {
  reply.code(201).header('cache-control', 'no-store');
  const [first] = receipts;
  // Written here: choosing between the two by their schema would cost more than the rest.
  reply.header('content-type', 'application/json; charset=utf-8');
  if (receipts.length !== 1 || !first) {
    return reply.send(JSON.stringify(receipts.map((receipt) => receiptJson(receipt))));
  }
  return reply.header('location', fileUrl(first.key)).send(JSON.stringify(receiptJson(first)));
}
