import type { FileStore } from '@stevedore/client';
import {
  cacheControl,
  checkKey,
  infoJson,
  type Presentation,
  type ResourcePolicy,
  SKEW_MS,
  type UnsentBytes,
} from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Access, AskedBy } from '../access/access.js';
import { route } from '../http/methods.js';
import type { ReadyAnswers } from '../http/ready-answers.js';
import { answerRequest, sendFile } from '../http/serve-file.js';

/** `/files/KEY`: files by their keys. */

export interface FileRoutes {
  readonly store: FileStore;
  readonly access: Access;
  /** Types shown in place although a browser might run them. */
  readonly inlineTypes: ReadonlySet<string>;
  readonly resourcePolicy: ResourcePolicy;
  readonly unsent: UnsentBytes;
  /** Takes answers that can be given again. */
  readonly ready?: ReadyAnswers | undefined;
}

export function fileRoutes(app: FastifyInstance, routes: FileRoutes): void {
  const { store, access, inlineTypes, resourcePolicy, unsent, ready } = routes;
  const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const key = keyOf(request);
    const grant = access.read(request as AskedBy, key);
    const file = await store.get(key);
    const { type, name } = file;
    const presentation = { type, name, immutable: true, inlineTypes, resourcePolicy, ...grant };
    const answer = await answerRequest(request, file, presentation, unsent);
    if (ready && answer.status === 200 && Buffer.isBuffer(answer.content)) {
      const { freshUntil } = grant;
      ready.keep(request.raw, {
        key,
        route: request.routeOptions.url ?? '',
        content: answer.content,
        headers: { ...reply.getHeaders(), ...answer.headers },
        cacheControl: ageOf(presentation, freshUntil, file.expiresAt),
        until: (freshUntil ?? Number.POSITIVE_INFINITY) + SKEW_MS,
      });
    }
    return sendFile(reply, answer, unsent);
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

/** `Cache-Control` at a time; undefined where it is always the same. */
function ageOf(
  presentation: Presentation,
  freshUntil: number | undefined,
  expiresAt: Date | undefined,
): ((now: number) => string) | undefined {
  if (freshUntil === undefined) {
    return expiresAt && ((now) => cacheControl(presentation, expiresAt, now));
  }
  return (now) => {
    const freshSeconds = Math.floor((freshUntil - now) / 1000);
    return cacheControl({ ...presentation, freshSeconds }, expiresAt, now);
  };
}

function keyOf(request: FastifyRequest): string {
  return checkKey((request.params as { readonly key: string }).key);
}
