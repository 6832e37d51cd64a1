/**
 * A plugin for Fastify.
 *
 * @module @stevedore/middleware/fastify
 */
import type { OutgoingHttpHeaders } from 'node:http';
import type { Receipt, Store } from '@stevedore/client';
import type {
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  onRequestAsyncHookHandler,
} from 'fastify';
import type { Answer } from './core/http/file-answer.js';
import { isFault, methodNotAllowed } from './core/problems.js';
import { checkKey } from './core/receipts.js';
import type { Stored } from './core/upload/idempotency.js';
import type { UploadRules } from './core/upload/policy.js';
import { asHttpError, type FilesOptions, MountedFiles } from './mounted-files.js';

/**
 * A Fastify plugin, 5 and later. Registered with a `prefix`, it adds the routes of a file resource:
 * `POST /`, tus uploads at `/` and `/:key`, `GET /:key`, `GET /:key/:filename`, `GET /:key/info`,
 * and `DELETE /:key` if that is allowed. For an app's own routes there are `upload` and `download`.
 * Bodies are streams: no body parser runs in its scope.
 */

export type { FilesOptions, UploadRules };

export interface FastifyFilesOptions extends Omit<FilesOptions, 'onError'> {
  /** Whether files may be deleted through it; default false. */
  readonly allowDelete?: boolean;
  /** Hooks that run before everything else, for access control. */
  readonly onRequest?: onRequestAsyncHookHandler | onRequestAsyncHookHandler[];
  /** Called after each upload; what it returns is the answer instead of the receipts. */
  readonly onStored?: (
    receipts: readonly Receipt[],
    request: FastifyRequest,
    reply: FastifyReply,
  ) => unknown;
}

export const stevedore: FastifyPluginAsync<FastifyFilesOptions> = async (app, options) => {
  const files = new MountedFiles(options);
  const { onStored, allowDelete = false } = options;
  streamBodies(app);
  for (const hook of [options.onRequest ?? []].flat()) app.addHook('onRequest', hook);

  const base = app.prefix.replace(/\/$/, '');

  const proceed = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { key } = request.params as { readonly key?: string };
    const asked = {
      key,
      onStored: (receipt: Receipt) => onStored?.([receipt], request, reply),
    };
    try {
      return send(reply, await files.proceed(request.raw, reply.raw, base, asked));
    } catch (error) {
      files.closeIfUnread(request.raw, reply.raw);
      return rethrow(request, error);
    }
  };
  app.route({ method: ['PATCH', 'OPTIONS'], url: '/:key', handler: proceed });
  app.options('/', proceed);

  app.post('/', async (request, reply) => {
    if (files.isResumable(request.raw)) return proceed(request, reply);
    const stored = await receive(files, request, reply);
    const answer = await onStored?.(stored.receipts, request, reply);
    if (reply.sent) return reply;
    if (answer === undefined) return send(reply, files.uploaded(stored, base));
    return reply.code(201).header('cache-control', 'no-store').send(answer);
  });

  const read = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    if (request.method === 'HEAD' && files.isResumable(request.raw)) return proceed(request, reply);
    return sendFile(files, request, reply, keyOf(request));
  };
  for (const url of ['/:key', '/:key/:filename']) {
    app.route({ method: ['GET', 'HEAD'], url, exposeHeadRoute: false, handler: read });
  }

  app.route({
    method: ['GET', 'HEAD'],
    url: '/:key/info',
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const info = async () => files.info(request.raw, checkKey(keyOf(request)), base);
      return send(reply, await info().catch((error) => rethrow(request, error)));
    },
  });

  if (allowDelete || options.store.unfinished) {
    app.delete('/:key', async (request, reply) => {
      if (files.isResumable(request.raw)) return proceed(request, reply);
      if (!allowDelete) return rethrow(request, methodNotAllowed('DELETE', 'GET, HEAD'));
      const remove = async () => files.remove(checkKey(keyOf(request)));
      return send(reply, await remove().catch((error) => rethrow(request, error)));
    });
  }
};

export default stevedore;

type Upload = (request: FastifyRequest, reply: FastifyReply) => Promise<readonly Receipt[]>;

/**
 * Stores the files of a request: `await photos(request, reply)`. The route must be in a scope for
 * which `streamBodies` was called.
 */
export function upload(store: Store, policy: UploadRules = {}): Upload {
  const files = new MountedFiles({ store, policy });
  return async (request, reply) => (await receive(files, request, reply)).receipts;
}

/** Answers with a file: `return photo(request, reply, key)`. */
export function download(
  store: Store,
  options: Omit<FilesOptions, 'store' | 'policy' | 'onError'> = {},
) {
  const files = new MountedFiles({ ...options, store });
  return (request: FastifyRequest, reply: FastifyReply, key: string): Promise<FastifyReply> =>
    sendFile(files, request, reply, key);
}

/** Leaves bodies to the routes of this scope, whatever their type. */
export function streamBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
}

async function receive(
  files: MountedFiles,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Stored> {
  try {
    return await files.receive(request.raw, reply.raw);
  } catch (error) {
    files.closeIfUnread(request.raw, reply.raw);
    return rethrow(request, error);
  }
}

async function sendFile(
  files: MountedFiles,
  request: FastifyRequest,
  reply: FastifyReply,
  key: string,
): Promise<FastifyReply> {
  // Written past Fastify, which would read a long file ahead of its client.
  await files
    .sendFile(
      request.raw,
      reply.raw,
      key,
      () => {
        reply.hijack();
        return reply.getHeaders() as OutgoingHttpHeaders;
      },
      (error) => {
        if (hasLogger(request)) request.log.error({ err: error }, 'download ended early');
        else files.onError(error);
      },
    )
    .catch((error) => rethrow(request, error));
  return reply;
}

/** Through Fastify, so that its hooks run. */
function send(reply: FastifyReply, { status, headers, content }: Answer): FastifyReply {
  return reply.code(status).headers(headers).send(content);
}

/** Fastify answers an error with its `statusCode` and `headers`, and logs it if it has a logger. */
function rethrow(request: FastifyRequest, error: unknown): never {
  const problem = asHttpError(error);
  if (isFault(problem.code) && !hasLogger(request)) console.error(error);
  throw problem;
}

/** By default Fastify has none: what stands in for it has no level. */
function hasLogger({ log }: FastifyRequest): boolean {
  return log.level !== undefined;
}

function keyOf(request: FastifyRequest): string {
  return (request.params as { readonly key: string }).key;
}
