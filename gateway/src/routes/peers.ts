import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { isStoreError, type StoredFile } from '@stevedore/client';
import {
  answerProof,
  type GatewayStore,
  isPeerToken,
  MAX_FACTS_BYTES,
  MAX_FACTS_KEYS,
  originOf,
  PEER_FILE_HEADER,
  PEER_HEADER,
  type ToldFile,
  tryReach,
  tunnelName,
  writeFacts,
} from '@stevedore/client/internal';
import {
  type Answer,
  checkKey,
  type Files,
  ProblemError,
  partJson,
  problemBody,
  receiptJson,
  toProblem,
} from '@stevedore/middleware/core';
import type { FastifyInstance } from 'fastify';
import type { AskedBy } from '../access/access.js';
import { filesBase } from '../http/public-address.js';
import { type Answering, type Call, keyOf } from '../http/route.js';
import { listOptions } from './listing.js';

/**
 * Routes for the other gateways of a deployment, authenticated by the secret that they share
 * through the map. `/peer/files/KEY` serves only this gateway's own files, so a request makes one
 * hop; a gateway that was adopted and came back puts its files there. `/peer/files` lists them, or
 * those of an upload that was repeated at another gateway, and `/peer/groups` their groups.
 * `/peer/reach` says whether this gateway reaches the one that asks.
 * `/peer/facts` answers about several at once, with the bytes of small ones; `/peer/copies/ORIGIN`
 * does so for staged files of a gateway that is down, from the copies held here. `CONNECT
 * copies-ORIGIN:1` opens the connection over which a gateway sends what it stages; frames follow in
 * both directions.
 * Answers carry a proof that a gateway of the deployment made them.
 */

/** Below it are the copies, which the first worker of a gateway holds. */
export const COPIES_PATH = '/peer/copies/';
const ONLY_HERE = { onlyHere: true } as const;
const FACTS_TYPE = 'application/octet-stream';

export function peerRoutes(
  app: FastifyInstance,
  files: Files,
  store: GatewayStore,
  answering: Answering,
): void {
  const { deployment, siblings } = store;
  if (!deployment) return;
  peerCopies(app, store);
  const peer = (method: 'GET' | 'PUT' | 'DELETE', url: string, call: Call): void => {
    const handler = answering(asPeer(deployment, call));
    app.route({ method, url, handler });
  };
  /** Only the gateway of a request's key says that there is no such file. */
  const asked = async <Result>(key: string, ask: () => Promise<Result>): Promise<Result> => {
    try {
      return await ask();
    } catch (error) {
      if (!isStoreError(error, 'not_found')) throw error;
      const owner = deployment.ownerOf(originOf(Buffer.from(key, 'base64url')));
      const isOurs = owner === deployment.origin || siblings?.has(owner);
      throw isOurs
        ? new ProblemError('not_found', error.message, error)
        : new ProblemError('storage_unavailable', 'The key belongs to another gateway.', error);
    }
  };
  const get = (key: string) => asked(key, () => files.store.get(key, ONLY_HERE));
  peer('GET', '/peer/files', async (request) => {
    const { query } = request as AskedBy;
    if (query.once === undefined) {
      return files.list(request.raw, { ...listOptions(query), ...ONLY_HERE }, filesBase(request));
    }
    const { once, 'within-ms': within = Number.POSITIVE_INFINITY } = query;
    const known = await files.knownUpload(Buffer.from(String(once), 'base64url'), Number(within));
    return files.answer(known.map((receipt) => partJson(receipt, filesBase(request))));
  });
  peer('GET', '/peer/groups', (request) =>
    files.groups(request.raw, { ...listOptions((request as AskedBy).query), ...ONLY_HERE }),
  );
  peer('GET', '/peer/files/:key', async (request) =>
    files.read(request.raw, await get(keyOf(request)), { private: true }),
  );
  peer('GET', '/peer/facts', (request) => tell(request as AskedBy, get));
  peer('GET', `${COPIES_PATH}:origin`, (request) => {
    const { origin } = request.params as { readonly origin: string };
    // It may have been taken over meanwhile.
    return tell(request as AskedBy, async (key) => {
      const id = Buffer.from(key, 'base64url');
      const held = await store.copies?.findHere(Number(origin), id).catch(deletedThere);
      return held ?? get(key);
    });
  });
  peer('GET', '/peer/reach', async (request) => {
    const { back } = (request as AskedBy).query;
    const tried = back === undefined ? undefined : await tryReach(deployment, String(back), '');
    return files.answer({ back: tried?.to });
  });
  peer('PUT', '/peer/files/:key', async (request) => {
    const { about, size, crc32, large } = (request as AskedBy).query;
    const file = {
      key: Buffer.from(keyOf(request), 'base64url'),
      about: String(about),
      size: Number(size),
      crc32: Number(crc32),
      isLarge: large === 'true',
    };
    return files.answer({ taken: await store.copies?.takeBack(file, request.raw) });
  });
  peer('DELETE', '/peer/files/:key', (request) => {
    const key = keyOf(request);
    return asked(key, () => files.remove(key, ONLY_HERE));
  });
}

/** The facts of several files, with the bytes of small ones that are on this disk. */
async function tell(
  { query }: AskedBy,
  get: (key: string) => Promise<StoredFile>,
): Promise<Answer> {
  const keys = String(query.keys).split(',', MAX_FACTS_KEYS);
  const most = Number(query.most);
  let bytes = 0;
  const told = await Promise.all(
    keys.map(async (key): Promise<ToldFile> => {
      try {
        const file = await get(checkKey(key));
        const { fileId, idPending } = file;
        const facts = receiptJson({ ...file, key, fileId, idPending }, '');
        const isInline = file.size <= most && (bytes === 0 || bytes + file.size <= MAX_FACTS_BYTES);
        if (!isInline) return { facts, bytes: undefined };
        bytes += file.size;
        // A read from FastDFS would keep the other files waiting.
        const isHere = file.state === 'staged';
        return { facts, bytes: file.contentNow() ?? (isHere ? await file.bytes() : undefined) };
      } catch (error) {
        return { problem: toProblem(error).code };
      }
    }),
  );
  const { digest, content } = writeFacts(told);
  const headers = { 'content-type': FACTS_TYPE, 'content-length': String(content.length) };
  return { status: 200, headers: { ...headers, [PEER_FILE_HEADER]: digest }, content };
}

/** Answers only requests with the token of a gateway of the deployment, and proves the answers. */
export function asPeer(deployment: GatewayStore['deployment'], call: Call): Call {
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

/** A live gateway sends something every second. */
const IDLE_MS = 15_000;
/** The others close their connections once they hear that this gateway leaves. */
const LEAVE_MS = 1_000;
const TARGET = /^copies-(\d{1,5}):1$/;
const REFUSED = 'HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';

function peerCopies(app: FastifyInstance, { deployment, copies }: GatewayStore): void {
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
