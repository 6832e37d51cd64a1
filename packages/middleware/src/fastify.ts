import type { OutgoingHttpHeaders } from 'node:http';
import type { FileStore, Receipt } from '@stevedore/client';
import type {
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  onRequestAsyncHookHandler,
} from 'fastify';
import { infoJson, receiptJson } from './core/http/receipt-json.js';
import type { UploadRules } from './core/upload/policy.js';
import { asHttpError, Files, type FilesOptions } from './files.js';

/**
 * A Fastify plugin, 5 and later. Registered with a `prefix`, it has the routes of a place
 * for files: `POST /`, `GET /:key`, `GET /:key/:filename`, `GET /:key/info`, and `DELETE
 * /:key` where that is allowed. For routes of an app's own there are `upload` and
 * `download`. Bodies are streams: in its scope no body parser runs.
 */

export type { FilesOptions, UploadRules };

export interface FastifyFilesOptions extends FilesOptions {
  /** Whether files may be deleted through it; default false. */
  readonly allowDelete?: boolean;
  /** Hooks before everything: who may. */
  readonly onRequest?: onRequestAsyncHookHandler | onRequestAsyncHookHandler[];
  /** Called after each upload; what it returns is the answer instead of the receipts. */
  readonly onStored?: (
    receipts: readonly Receipt[],
    request: FastifyRequest,
    reply: FastifyReply,
  ) => unknown;
}

export const stevedore: FastifyPluginAsync<FastifyFilesOptions> = async (app, options) => {
  const files = new Files(options);
  const { onStored, allowDelete = false } = options;
  streamBodies(app);
  for (const hook of [options.onRequest ?? []].flat()) app.addHook('onRequest', hook);

  app.post('/', async (request, reply) => {
    const receipts = await receive(files, request, reply);
    const answer = await onStored?.(receipts, request, reply);
    if (reply.sent) return reply;
    reply.code(201).header('cache-control', 'no-store');
    if (answer !== undefined) return answer;
    const base = app.prefix.replace(/\/$/, '');
    const stored = receipts.map((receipt) => receiptJson(receipt, base));
    const [first] = stored;
    if (stored.length !== 1 || !first) return stored;
    reply.header('location', first.url);
    return first;
  });

  const send = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    answer(files, request, reply, keyOf(request));
  for (const url of ['/:key', '/:key/:filename']) {
    app.route({ method: ['GET', 'HEAD'], url, exposeHeadRoute: false, handler: send });
  }

  app.get('/:key/info', async (request, reply) => {
    const info = await files.store.stat(keyOf(request)).catch(rethrow);
    reply.header('cache-control', 'no-cache');
    return { ...infoJson(info), url: `${app.prefix.replace(/\/$/, '')}/${info.key}` };
  });

  if (allowDelete) {
    app.delete('/:key', async (request, reply) => {
      await files.store.delete(keyOf(request)).catch(rethrow);
      return reply.code(204).send();
    });
  }
};

export default stevedore;

type Upload = (request: FastifyRequest, reply: FastifyReply) => Promise<Receipt[]>;

/**
 * Stores what a request of a route brings: `await photos(request, reply)`. The route has
 * to be in a scope for which `streamBodies` was called.
 */
export function upload(store: FileStore, policy: UploadRules = {}): Upload {
  const files = new Files({ store, policy });
  return (request, reply) => receive(files, request, reply);
}

/** Answers with a file: `return photo(request, reply, key)`. */
export function download(store: FileStore, options: Omit<FilesOptions, 'store' | 'policy'> = {}) {
  const files = new Files({ ...options, store });
  return (request: FastifyRequest, reply: FastifyReply, key: string): Promise<FastifyReply> =>
    answer(files, request, reply, key);
}

/** In this scope bodies are left to the routes, whatever their type. */
export function streamBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
}

async function receive(
  files: Files,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Receipt[]> {
  try {
    return await files.receive(request.raw, reply.raw);
  } catch (error) {
    files.prepare(request.raw, reply.raw);
    return rethrow(error);
  }
}

async function answer(
  files: Files,
  request: FastifyRequest,
  reply: FastifyReply,
  key: string,
): Promise<FastifyReply> {
  // Written past Fastify, which would read a long file ahead of its client.
  await files
    .send(request.raw, reply.raw, key, () => {
      reply.hijack();
      return reply.getHeaders() as OutgoingHttpHeaders;
    })
    .catch(rethrow);
  return reply;
}

/** Fastify answers an error with its `statusCode` and `headers`. */
function rethrow(error: unknown): never {
  throw asHttpError(error);
}

function keyOf(request: FastifyRequest): string {
  return (request.params as { readonly key: string }).key;
}
