import type { FileStore } from '@stevedore/client';
import { checkKey, infoJson } from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import { route } from '../http/methods.js';
import { serveFile } from '../http/serve-file.js';

/** `/files`: uploads, and files by their keys. */
export function fileRoutes(
  app: FastifyInstance,
  store: FileStore,
  upload: RouteHandlerMethod,
): void {
  const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const file = await store.get(keyOf(request));
    return serveFile(request, reply, file, { type: file.type, name: file.name, immutable: true });
  };

  const info = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const found = await store.stat(keyOf(request));
    return reply.header('cache-control', 'no-cache').send(infoJson(found));
  };

  const remove = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    await store.delete(keyOf(request));
    return reply.code(204).send();
  };

  route(app, '/files', { POST: upload });
  route(app, '/files/:key', { GET: serve, HEAD: serve, DELETE: remove });
  route(app, '/files/:key/info', { GET: info, HEAD: info });
  // The second part is for people and for `Save as`; the key alone finds the file.
  route(app, '/files/:key/:filename', { GET: serve, HEAD: serve });
}

function keyOf(request: FastifyRequest): string {
  return checkKey((request.params as { readonly key: string }).key);
}
