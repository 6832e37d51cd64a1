import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import {
  answerProof,
  type FileStore,
  isPeerToken,
  isStoreError,
  originOf,
  PEER_FILE_HEADER,
  PEER_HEADER,
  type StoredFile,
  tunnelName,
} from '@stevedore/client';
import {
  type Answer,
  checkKey,
  type Files,
  ProblemError,
  problemBody,
  receiptJson,
  toProblem,
} from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { AskedBy } from '../access/access.js';
import { filesBase } from '../http/public-address.js';
import type { Answering, Call } from '../http/route.js';
import { listOptions } from './listing.js';

/**
 * Routes for the other gateways of a deployment, authenticated by the secret that they share
 * through the map. `/peer/files/KEY` serves only this gateway's own files, so a request makes one
 * hop; `/peer/files` lists them. `/peer/copies/ORIGIN/KEY` serves a staged file of a gateway that is
 * down, from the copy held here. `/peer/uploads/MARK` returns what it has of an upload that was
 * repeated at another gateway. `CONNECT copies-ORIGIN:1` opens the connection over which a gateway
 * sends what it stages; frames follow in both directions.
 * Answers carry a proof that a gateway of the deployment made them.
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
  const peer = (method: 'GET' | 'DELETE', url: string, call: Call): void => {
    const handler = answering(asPeer(deployment, call));
    app.route({ method, url, handler, schema: { hide: true } });
  };
  /** Only the gateway of a request's key says that there is no such file. */
  const asked = async <Result>(
    { params }: FastifyRequest,
    ask: (key: string) => Promise<Result>,
  ): Promise<Result> => {
    const key = checkKey((params as { readonly key: string }).key);
    try {
      return await ask(key);
    } catch (error) {
      if (!isStoreError(error, 'not_found')) throw error;
      const owner = deployment.ownerOf(originOf(Buffer.from(key, 'base64url')));
      const isOurs = owner === deployment.origin || siblings?.has(owner);
      throw isOurs
        ? new ProblemError('not_found', error.message, error)
        : new ProblemError('host_not_served', 'The key belongs to another gateway.', error);
    }
  };
  const send = async (request: FastifyRequest, file: StoredFile): Promise<Answer> => {
    // The file's facts come with its bytes: one request is enough for most.
    const facts = {
      [PEER_FILE_HEADER]: packed(
        receiptJson({ ...file, key: file.key ?? '', fileId: file.fileId }, filesBase(request)),
      ),
    };
    const { most } = request.query as { readonly most?: string };
    if (most !== undefined && file.size > Number(most)) return { status: 204, headers: facts };
    const answer = await files.read(request.raw, file, { private: true });
    return { ...answer, headers: { ...answer.headers, ...facts } };
  };
  peer('GET', '/peer/files', async (request) => {
    const options = listOptions((request as AskedBy).query);
    return files.list(request.raw, { ...options, ...ONLY_HERE }, filesBase(request));
  });
  peer('GET', '/peer/files/:key', async (request) =>
    send(request, await asked(request, (key) => files.store.get(key, ONLY_HERE))),
  );
  peer('GET', `${COPIES_PATH}:origin/:key`, async (request) => {
    const { origin } = request.params as { readonly origin: string };
    const file = await asked(request, async (key) => {
      const held = await store.copies?.find(Number(origin), key).catch(deletedThere);
      // It may have been taken over meanwhile.
      return held ?? files.store.get(key, ONLY_HERE);
    });
    return send(request, file);
  });
  peer('GET', '/peer/uploads/:mark', async (request) => {
    const { mark } = request.params as { readonly mark: string };
    const { within = Number.POSITIVE_INFINITY } = request.query as { readonly within?: string };
    const known = await files.knownUpload(Buffer.from(mark, 'base64url'), Number(within));
    const receipts = known.map((receipt) => receiptJson(receipt, filesBase(request)));
    return {
      status: 200,
      headers: { 'content-type': 'application/json' },
      content: JSON.stringify({ receipts }),
    };
  });
  peer('DELETE', '/peer/files/:key', (request) =>
    asked(request, (key) => files.remove(key, ONLY_HERE)),
  );
}

/** Answers only requests with the token of a gateway of the deployment, and proves the answers. */
export function asPeer(deployment: FileStore['deployment'], call: Call): Call {
  return async (request, reply) => {
    const { method, url } = request;
    const token = request.headers[PEER_HEADER];
    if (deployment?.secret === undefined || !isPeerToken(token, deployment, method, url)) {
      // As for any unknown path: a caller without the token learns nothing.
      throw new ProblemError('route_not_found', 'There is nothing at this path.');
    }
    try {
      const { headers, ...answer } = await call(request, reply);
      const proof = answerProof(deployment, token, answer.status, headers[PEER_FILE_HEADER]);
      return { ...answer, headers: { ...headers, [PEER_HEADER]: proof } };
    } catch (error) {
      const { code, message, headers } = toProblem(error);
      // A read that finds nothing does not make the file a deleted one.
      if (code === 'not_found' && !(error instanceof ProblemError)) throw error;
      const proof = answerProof(deployment, token, problemBody(code, message).status);
      throw new ProblemError(code, message, error, { ...headers, [PEER_HEADER]: proof });
    }
  };
}

/** The copy, which has the deletion, speaks for the file's gateway. */
function deletedThere(error: Error): never {
  throw isStoreError(error, 'not_found')
    ? new ProblemError('not_found', error.message, error)
    : error;
}

function packed(facts: object): string {
  return Buffer.from(JSON.stringify(facts)).toString('base64url');
}

/** A live gateway sends something every second. */
const IDLE_MS = 15_000;
/** The others close their connections once they hear that this gateway leaves. */
const LEAVE_MS = 1_000;
const TARGET = /^copies-(\d{1,5}):1$/;
const REFUSED = 'HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';

function peerCopies(
  app: FastifyInstance,
  { deployment, copies }: Pick<FileStore, 'deployment' | 'copies'>,
): void {
  if (!copies) return;
  const open = new Set<Duplex>();
  const take = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    socket.on('error', () => undefined);
    const { method = '', url = '', headers } = request;
    const token = headers[PEER_HEADER];
    const origin = TARGET.exec(url)?.[1];
    const isPeer = deployment?.secret !== undefined && isPeerToken(token, deployment, method, url);
    if (origin === undefined || !isPeer || tunnelName(Number(origin)) !== url) {
      socket.end(REFUSED);
      return;
    }
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    request.socket.setNoDelay(true).setTimeout(IDLE_MS, () => socket.destroy());
    const proof = answerProof(deployment, token, 200);
    socket.write(`HTTP/1.1 200 OK\r\n${PEER_HEADER}: ${proof}\r\n\r\n`);
    if (head.length > 0) socket.unshift(head);
    void copies.receive(Number(origin), socket);
  };
  app.server.on('connect', take);
  app.addHook('preClose', async () => {
    copies.leave();
    const timer = setTimeout(() => {
      for (const socket of open) socket.destroy();
    }, LEAVE_MS);
    app.server.once('close', () => clearTimeout(timer));
  });
}
