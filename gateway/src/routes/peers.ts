import { isPeerToken, PEER_FILE_HEADER, PEER_HEADER } from '@stevedore/client';
import { checkKey, type Files, infoJson, ProblemError } from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Answering } from '../http/route.js';

/**
 * `/peer/files/KEY`: what the other gateways of a deployment ask for, with a token of the secret
 * that they share through the map. Only this gateway's own files are looked at: a request
 * makes one hop.
 */

const ONLY_HERE = { onlyHere: true } as const;

export function peerRoutes(app: FastifyInstance, files: Files, answering: Answering): void {
  const { deployment } = files.store;
  if (!deployment) return;
  const keyOf = (request: FastifyRequest): string => {
    const { secret } = deployment;
    const token = request.headers[PEER_HEADER];
    const path = request.url;
    if (secret === undefined || typeof token !== 'string') throw notThere();
    if (!isPeerToken(token, secret, request.method, path)) throw notThere();
    return checkKey((request.params as { readonly key: string }).key);
  };
  app.get(
    '/peer/files/:key',
    { schema: { hide: true } },
    answering(async (request) => {
      const key = keyOf(request);
      const file = await files.store.get(key, ONLY_HERE);
      // What is known of the file goes with its bytes: one request is enough for most.
      const facts = { [PEER_FILE_HEADER]: packed(infoJson({ ...file, key })) };
      const { most } = request.query as { readonly most?: string };
      if (most !== undefined && file.size > Number(most)) return { status: 204, headers: facts };
      const answer = await files.read(request.raw, file, { private: true });
      return { ...answer, headers: { ...answer.headers, ...facts } };
    }),
  );
  app.delete(
    '/peer/files/:key',
    { schema: { hide: true } },
    answering((request) => files.remove(keyOf(request), ONLY_HERE)),
  );
}

function packed(facts: object): string {
  return Buffer.from(JSON.stringify(facts)).toString('base64url');
}

/** As for any path that is not there: who has no token learns nothing. */
function notThere(): ProblemError {
  return new ProblemError('route_not_found', 'There is nothing at this path.');
}
