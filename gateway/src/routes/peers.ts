import {
  type FileStore,
  goneToken,
  isPeerToken,
  isStoreError,
  originOf,
  PEER_FILE_HEADER,
  PEER_HEADER,
  type StoredFile,
} from '@stevedore/client';
import {
  type Answer,
  checkKey,
  type Files,
  ProblemError,
  receiptJson,
} from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { AskedBy } from '../access/access.js';
import { filesBase } from '../http/public-address.js';
import type { Answering } from '../http/route.js';
import { listOptions } from './listing.js';
import { peerCopies } from './peer-copies.js';

/**
 * Routes for the other gateways of a deployment, authenticated by the secret that they share
 * through the map. `/peer/files/KEY` serves only this gateway's own files, so a request makes one
 * hop; `/peer/files` lists them. `/peer/copies/ORIGIN/KEY` serves a staged file of a gateway that is
 * down, from the copy held here. `/peer/uploads/MARK` returns what it has of an upload that was
 * repeated at another gateway.
 * Only the gateway of a key answers that a file is gone, with a proof.
 */

/** Below it are the copies, which the first worker of a gateway holds. */
export const COPIES_PATH = '/peer/copies/';
const ONLY_HERE = { onlyHere: true } as const;

export function peerRoutes(
  app: FastifyInstance,
  files: Files,
  store: FileStore,
  answering: Answering,
): void {
  const { deployment, siblings } = store;
  if (!deployment) return;
  peerCopies(app, store);
  /** Returns the secret. */
  const demandToken = ({ method, url, headers }: FastifyRequest): string => {
    const { secret } = deployment;
    const token = headers[PEER_HEADER];
    if (secret === undefined || typeof token !== 'string') throw notThere();
    if (!isPeerToken(token, secret, method, url)) throw notThere();
    return secret;
  };
  /** Serves the key of a request that has the token. */
  const asked = async <Result>(
    request: FastifyRequest,
    ask: (key: string) => Promise<Result>,
  ): Promise<Result> => {
    const secret = demandToken(request);
    const { params } = request;
    const key = checkKey((params as { readonly key: string }).key);
    try {
      return await ask(key);
    } catch (error) {
      if (!isStoreError(error, 'not_found')) throw error;
      const owner = deployment.ownerOf(originOf(Buffer.from(key, 'base64url')));
      if (owner !== deployment.origin && !siblings?.has(owner)) throw notOurs();
      const proof = { [PEER_HEADER]: goneToken(secret, key) };
      throw new ProblemError('not_found', error.message, error, proof);
    }
  };
  app.get(
    '/peer/files',
    { schema: { hide: true } },
    answering(async (request) => {
      demandToken(request);
      const options = listOptions((request as AskedBy).query);
      return files.list(request.raw, { ...options, ...ONLY_HERE }, filesBase(request));
    }),
  );
  const send = async (request: FastifyRequest, file: StoredFile): Promise<Answer> => {
    // The file's facts come with its bytes: one request is enough for most.
    const facts = {
      [PEER_FILE_HEADER]: packed(
        receiptJson({ ...file, key: file.key!, fileId: file.fileId }, filesBase(request)),
      ),
    };
    const { most } = request.query as { readonly most?: string };
    if (most !== undefined && file.size > Number(most)) return { status: 204, headers: facts };
    const answer = await files.read(request.raw, file, { private: true });
    return { ...answer, headers: { ...answer.headers, ...facts } };
  };
  app.get(
    '/peer/files/:key',
    { schema: { hide: true } },
    answering(async (request) =>
      // Does not cover the read: a file whose bytes FastDFS has lost is not gone.
      send(request, await asked(request, (key) => files.store.get(key, ONLY_HERE))),
    ),
  );
  app.get(
    `${COPIES_PATH}:origin/:key`,
    { schema: { hide: true } },
    answering(async (request) => {
      demandToken(request);
      const { origin, key } = request.params as { readonly origin: string; readonly key: string };
      const held = await store.copies?.find(Number(origin), checkKey(key));
      // It may have been taken over meanwhile.
      return send(request, held ?? (await files.store.get(key, ONLY_HERE)));
    }),
  );
  app.get(
    '/peer/uploads/:mark',
    { schema: { hide: true } },
    answering(async (request) => {
      demandToken(request);
      const { mark } = request.params as { readonly mark: string };
      const { within = Number.POSITIVE_INFINITY } = request.query as { readonly within?: string };
      const known = await files.knownUpload(Buffer.from(mark, 'base64url'), Number(within));
      const receipts = known.map((receipt) => receiptJson(receipt, filesBase(request)));
      return {
        status: 200,
        headers: { 'content-type': 'application/json' },
        content: JSON.stringify({ receipts }),
      };
    }),
  );
  app.delete(
    '/peer/files/:key',
    { schema: { hide: true } },
    answering((request) => asked(request, (key) => files.remove(key, ONLY_HERE))),
  );
}

function packed(facts: object): string {
  return Buffer.from(JSON.stringify(facts)).toString('base64url');
}

/** As for any unknown path: a caller without the token learns nothing. */
function notThere(): ProblemError {
  return new ProblemError('route_not_found', 'There is nothing at this path.');
}

/** Another gateway's key: this one cannot say whether the file exists. */
function notOurs(): ProblemError {
  return new ProblemError('host_not_served', 'The key belongs to another gateway.');
}
