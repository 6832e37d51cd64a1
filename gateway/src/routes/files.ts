import type { FileStore } from '@stevedore/client';
import { checkKey, infoJson } from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Access, AskedBy } from '../access/access.js';
import { route } from '../http/methods.js';
import { serveFile } from '../http/serve-file.js';

/** `/files/KEY`: files by their keys. */

export interface FileRoutes {
  readonly store: FileStore;
  readonly access: Access;
  /** Types shown in place although a browser might run them. */
  readonly inlineTypes: ReadonlySet<string>;
}

export function fileRoutes(app: FastifyInstance, routes: FileRoutes): void {
  const { store, access, inlineTypes } = routes;
  const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const key = keyOf(request);
    const grant = access.read(request as AskedBy, key);
    const file = await store.get(key);
    const { type, name } = file;
    return serveFile(request, reply, file, { type, name, immutable: true, inlineTypes, ...grant });
  };

  const info = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const key = keyOf(request);
    access.info(request as AskedBy);
    const found = await store.stat(key);
    return reply.header('cache-control', 'no-cache').send(infoJson(found));
  };

  const remove = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const key = keyOf(request);
    access.remove(request as AskedBy);
    await store.delete(key);
    return reply.code(204).send();
  };

  route(app, '/files/:key', { GET: serve, HEAD: serve, DELETE: remove });
  route(app, '/files/:key/info', { GET: info, HEAD: info });
  // The second part is for people and for `Save as`; the key alone finds the file.
  route(app, '/files/:key/:filename', { GET: serve, HEAD: serve });
}

function keyOf(request: FastifyRequest): string {
  return checkKey((request.params as { readonly key: string }).key);
}
