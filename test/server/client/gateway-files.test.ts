import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { crc32 } from 'node:zlib';
import { expect, it, onTestFinished } from 'vitest';
import {
  GatewayFiles,
  type GatewayFilesOptions,
} from '../../../packages/client/dist/holders/gateway-files.js';
import {
  answerProof,
  isPeerToken,
  PEER_HEADER,
  peerToken,
} from '../../../packages/client/dist/holders/peer-seals.js';
import { execFileSync } from '../../support/child-process.js';
import { factsOf, PEERS, proven, tellFacts } from '../../support/client/peer-answers.js';
import { quiet } from '../../support/quiet.js';
import { hasCommand, requirement } from '../../support/requirements.js';
import { serving } from '../../support/serving.js';
import { temporaryFolder } from '../../support/temporary.js';

/** What one gateway makes of the answers of another one, good and bad. */

const needsOpenssl = requirement('openssl', () => hasCommand('openssl', 'version'));
const KEY = 'AAAAAAAAAAAAAAAAAAAAAA';
const CONTENT = Buffer.from('the content of a small file');
const UNAVAILABLE = { name: 'StoreError', code: 'storage_unavailable', retryable: true };

const PROBLEM = JSON.stringify({ code: 'forbidden', detail: 'No.' });

/** A gateway that has this file. */
const has =
  (content: Buffer): RequestListener =>
  ({ url = '' }, response) => {
    const isFacts = url.includes('keys=');
    const { head, body } = isFacts
      ? tellFacts(url, content)
      : { head: { 'content-length': content.length }, body: content };
    response.writeHead(200, head).end(body);
  };

const infoOf = (content: Buffer) => ({ key: KEY, size: content.length, crc32: crc32(content) });

async function peer(
  listener: RequestListener,
  options: Partial<GatewayFilesOptions> = {},
): Promise<{ files: GatewayFiles; server: Server }> {
  const server = createServer(proven(listener));
  const files = new GatewayFiles(await serving(server), {
    ...{ connections: 2, maxRequests: 100, connectTimeoutMs: 1000, answerTimeoutMs: 1000 },
    ...{ peers: PEERS, ...options },
  });
  onTestFinished(() => files.close());
  return { files, server };
}

it('an answer counts only with the proof of a gateway of the deployment, made for its request', async () => {
  let status = 200;
  let wrong: (token: string) => Record<string, string> = () => ({});
  let first: string | undefined;
  const { files } = await peer((request, response) => {
    const { method = '', url = '', headers } = request;
    const token = headers[PEER_HEADER];
    if (!isPeerToken(token, PEERS, method, url)) throw new Error('it has no token');
    first ??= token;
    const { head, body } = tellFacts(url, CONTENT);
    const isFacts = url.includes('keys=') && status < 300;
    if (status >= 300) response.writeHead(status, wrong(token)).end(PROBLEM);
    else {
      const length = { 'content-length': CONTENT.length };
      response.writeHead(status, { ...(isFacts ? head : length), ...wrong(token) });
      response.end(status === 204 ? undefined : isFacts ? body : CONTENT);
    }
  });
  const asks = (): Promise<unknown>[] => [
    files.find(KEY, undefined),
    files.read(infoOf(CONTENT), undefined, undefined),
    files.delete(KEY),
    files.findOnce(Buffer.alloc(16), 100),
    files.list({ limit: 3 }),
  ];
  const proofs: readonly (typeof wrong)[] = [
    () => ({ [PEER_HEADER]: 'x' }),
    (token) => ({ [PEER_HEADER]: answerProof({ ...PEERS, secret: 'other' }, token, status) }),
    (token) => ({ [PEER_HEADER]: answerProof(PEERS, token, status + 1) }),
    // The facts of another file.
    (token) => ({ [PEER_HEADER]: answerProof(PEERS, token, status, 'facts') }),
    // An answer to another request.
    () => ({ [PEER_HEADER]: answerProof(PEERS, first!, status) }),
  ];
  const fail = async (...codes: string[]) => {
    const answers = await Promise.allSettled(asks());
    const reasons = answers.map((each) => each.status === 'rejected' && each.reason);
    expect(reasons.map((reason) => reason.code)).toEqual(codes);
  };
  const away = Array.from({ length: 5 }, () => UNAVAILABLE.code);
  for (status of [200, 204, 404]) {
    for (wrong of proofs) await fail(...away);
  }
  wrong = () => ({});
  for (status of [410, 421]) await fail(...away);
});

it('a token is good for one method and path, and for a minute by the clock of the map', () => {
  let now = 5e12;
  const peers = { secret: 'shared', mapNow: () => now };
  const token = peerToken(peers, 'GET', '/peer/files/a');
  const isGood = (method: string, path: string, at: number, secret = 'shared') =>
    isPeerToken(token, { secret, mapNow: () => at }, method, path);
  expect(isGood('GET', '/peer/files/a', now)).toBe(true);
  for (const ms of [-60_000, 60_000]) expect(isGood('GET', '/peer/files/a', now + ms)).toBe(true);
  for (const ms of [-60_001, 60_001]) expect(isGood('GET', '/peer/files/a', now + ms)).toBe(false);
  expect(isGood('DELETE', '/peer/files/a', now)).toBe(false);
  expect(isGood('GET', '/peer/files/b', now)).toBe(false);
  expect(isGood('GET', '/peer/files/a', now, 'other')).toBe(false);
  // A later time in an old token.
  const [, ...rest] = token.split('.');
  now += 90_000;
  for (const time of [now, 'x', '', 'NaN', 'Infinity']) {
    expect(isPeerToken([time, ...rest].join('.'), peers, 'GET', '/peer/files/a')).toBe(false);
  }
  for (const none of [undefined, '', '..', [token]]) {
    expect(isPeerToken(none, peers, 'GET', '/peer/files/a')).toBe(false);
  }
});

it.each(['dies', 'stalls'])(
  'a gateway that %s within a body makes the file unavailable',
  async (how) => {
    const large = Buffer.alloc(2_000_000, 'large');
    const { files } = await peer(
      ({ url = '' }, response) => {
        const { head, body } = tellFacts(url, CONTENT);
        const isFacts = url.includes('keys=');
        response.writeHead(200, isFacts ? head : { 'content-length': large.length });
        response.write(isFacts ? body.subarray(0, 50) : large.subarray(5), () => {
          if (how === 'dies') response.destroy();
        });
      },
      how === 'stalls' ? { answerTimeoutMs: 600 } : {},
    );
    await expect(files.find(KEY, undefined)).rejects.toMatchObject(UNAVAILABLE);
    await expect(files.readWhole(infoOf(large), undefined)).rejects.toMatchObject(UNAVAILABLE);
    const read = files
      .read(infoOf(large), undefined, undefined)
      .then((stream) => buffer(stream as Readable));
    await expect(read).rejects.toMatchObject(UNAVAILABLE);
  },
);

it('a read that its caller ends is aborted, not unavailable', async () => {
  const large = Buffer.alloc(2_000_000, 'large');
  const { files } = await peer((_, response) => {
    response.writeHead(200, { 'content-length': large.length }).write(large.subarray(0, 4));
  });
  const aborted = { name: 'StoreError', code: 'aborted' };
  await expect(files.find(KEY, AbortSignal.timeout(100))).rejects.toMatchObject(aborted);
  await expect(files.find(KEY, AbortSignal.abort())).rejects.toMatchObject(aborted);
  const caller = new AbortController();
  const stream = (await files.read(infoOf(large), undefined, caller.signal)) as Readable;
  const failed = once(stream.resume(), 'error').catch((cause) => [cause]);
  caller.abort();
  const [error] = await failed;
  expect(error).toMatchObject(aborted);
});

it('a longer body than was asked for is not taken', async () => {
  const { files } = await peer(({ url = '' }, response) => {
    const { head, body } = tellFacts(url, CONTENT);
    const { 'content-length': _, ...rest } = head;
    response.writeHead(200, rest).write(body);
    for (let mib = 0; mib < 3; mib++) response.write(Buffer.alloc(2 ** 20));
    response.end();
  });
  await expect(files.find(KEY, undefined)).rejects.toMatchObject(UNAVAILABLE);
});

it('other bytes than the facts say are corrupt, and facts of another file are no answer', async () => {
  let facts: object = { crc32: '00000000' };
  const { files } = await peer(({ url = '' }, response) => {
    const { head, body } = tellFacts(url, CONTENT, facts);
    response.writeHead(200, head).end(body);
  });
  await expect(files.find(KEY, undefined)).rejects.toMatchObject({ code: 'corrupt' });
  facts = { key: 'BAAAAAAAAAAAAAAAAAAAAA' };
  await expect(files.find(KEY, undefined)).rejects.toMatchObject(UNAVAILABLE);
});

it('questions that wait at the same moment are few requests, and one for the same file', async () => {
  const urls: string[] = [];
  const { files } = await peer((request, response) => {
    urls.push(request.url ?? '');
    has(CONTENT)(request, response);
  });
  const keys = Array.from({ length: 70 }, (_, index) =>
    Buffer.alloc(16, index).toString('base64url'),
  );
  const found = await Promise.all([...keys, ...keys].map((key) => files.find(key, undefined)));
  expect(found.map(({ info }) => info.key)).toEqual([...keys, ...keys]);
  expect(found.every(({ bytes }) => bytes?.equals(CONTENT))).toBe(true);
  expect(urls).toHaveLength(2);
});

it('a gateway that answers in drops does not hold a small file longer than the limit', async () => {
  const sent = { bytes: 0, of: 0 };
  const { files } = await peer(
    (request, response) => {
      const { head, body } = tellFacts(request.url ?? '', CONTENT);
      response.writeHead(200, head);
      sent.of = body.length;
      const timer = setInterval(() => response.write(body.subarray(sent.bytes, ++sent.bytes)), 100);
      response.once('close', () => clearInterval(timer));
    },
    { answerTimeoutMs: 400 },
  );
  await expect(files.find(KEY, undefined)).rejects.toMatchObject(UNAVAILABLE);
  expect(sent.bytes).toBeLessThan(sent.of);
});

it('requests behind a gateway that stalls end in time, and no more than so many wait', async () => {
  const { files } = await peer(() => undefined, {
    ...{ connections: 1, maxRequests: 4, answerTimeoutMs: 500 },
  });
  const keys = Array.from({ length: 4 }, (_, index) =>
    Buffer.alloc(16, index).toString('base64url'),
  );
  let ended = 0;
  const waiting = keys.map((key) =>
    files.find(key, undefined).catch((error: unknown) => {
      ended += 1;
      return error;
    }),
  );
  const one = Buffer.alloc(16, 9).toString('base64url');
  await expect(files.find(one, undefined)).rejects.toMatchObject(UNAVAILABLE);
  expect(ended).toBe(0);
  for (const error of await Promise.all(waiting)) expect(error).toMatchObject(UNAVAILABLE);
});

it('a request that waits for a connection ends with the signal of its caller', async () => {
  const { files, server } = await peer(() => undefined, {
    ...{ connections: 1, answerTimeoutMs: 3_000 },
  });
  const arrived = once(server, 'request');
  let isAnswered = false;
  const first = files.find(KEY, undefined).catch((error: unknown) => {
    isAnswered = true;
    return error;
  });
  await arrived;
  const second = files.find(KEY, AbortSignal.timeout(100));
  await expect(second).rejects.toMatchObject({ code: 'aborted' });
  expect(isAnswered).toBe(false);
  expect(await first).toMatchObject(UNAVAILABLE);
});

it('requests that have ended make room for others', async () => {
  const { files } = await peer(
    (request, response) => {
      if (request.method === 'DELETE') response.writeHead(204).end();
      else has(CONTENT)(request, response);
    },
    { maxRequests: 1 },
  );
  for (let count = 0; count < 5; count++) {
    expect((await files.find(KEY, undefined)).bytes).toEqual(CONTENT);
    await quiet();
    expect(await files.readWhole(infoOf(CONTENT), undefined)).toEqual(CONTENT);
    await files.delete(KEY);
  }
});

it.skipIf(needsOpenssl.missing)(
  'a certificate that does not fit makes the file unavailable, and says why',
  async () => {
    const folder = temporaryFolder();
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    const make = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];
    const subject = ['-nodes', '-days', '2', '-subj', '/CN=another.example'];
    execFileSync('openssl', [...make, ...subject, '-keyout', key, '-out', cert], {
      stdio: 'ignore',
    });
    let requests = 0;
    const server = createSecureServer(
      { key: readFileSync(key), cert: readFileSync(cert) },
      (_, response) => {
        requests += 1;
        response.end();
      },
    );
    server.on('tlsClientError', () => undefined);
    const files = new GatewayFiles((await serving(server)).replace('http:', 'https:'), {
      ...{ connections: 2, maxRequests: 100, connectTimeoutMs: 1000, answerTimeoutMs: 1000 },
      peers: PEERS,
    });
    onTestFinished(() => files.close());
    await expect(files.find(KEY, undefined)).rejects.toMatchObject({
      ...UNAVAILABLE,
      message: expect.stringMatching(/^the gateway at https:.*certificate/),
    });
    await expect(files.delete(KEY)).rejects.toMatchObject(UNAVAILABLE);
    // Nothing was sent to who might be anybody.
    expect(requests).toBe(0);
  },
);

it('slow readers of large files do not keep small ones waiting', async () => {
  const large = Buffer.alloc(8_000_000, 'large');
  const { files } = await peer((request, response) => {
    const { url = '' } = request;
    has(url.includes('most=') ? CONTENT : large)(request, response);
  });
  for (let count = 0; count < 2; count++) {
    const stream = (await files.read(infoOf(large), undefined, undefined)) as Readable;
    onTestFinished(() => void stream.on('error', () => undefined).destroy());
  }
  expect((await files.find(KEY, undefined)).bytes).toEqual(CONTENT);
});

it('a page of files is taken whole and well-formed, or not at all', async () => {
  const info = factsOf(KEY, CONTENT);
  let answer: string | Buffer = JSON.stringify({ files: [info], next: KEY });
  let status = 200;
  const urls: string[] = [];
  const { files } = await peer(({ method = '', url = '', headers }, response) => {
    expect(isPeerToken(headers[PEER_HEADER], PEERS, method, url)).toBe(true);
    urls.push(url);
    response.writeHead(status).end(answer);
  });
  const since = new Date(5);
  const page = await files.list({ group: 'a b', since, after: KEY, limit: 3 });
  expect(page).toMatchObject({ files: [{ key: KEY, size: CONTENT.length }], next: KEY });
  expect(urls).toEqual([
    `/peer/files?limit=3&group=a+b&since=1970-01-01T00%3A00%3A00.005Z&after=${KEY}`,
  ]);
  // A body that would fill the memory, among others.
  const wrong = ['', '{', '[]', '{"files":{}}', '{"files":[{}]}', Buffer.alloc(100_000, ' ')];
  for (answer of wrong) {
    await expect(files.list({ limit: 3 })).rejects.toMatchObject(UNAVAILABLE);
  }
  [answer, status] = [JSON.stringify({ files: [] }), 404];
  await expect(files.list({ limit: 3 })).rejects.toMatchObject(UNAVAILABLE);
});
