import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { crc32 } from 'node:zlib';
import { StoreError } from '@stevedore/client';
import { MapError, type MappedFile } from '@stevedore/map';
import { expect, it, onTestFinished } from 'vitest';
import type { Deployment } from '../../packages/client/dist/deployment/deployment.js';
import { ForeignFiles } from '../../packages/client/dist/deployment/foreign-files.js';
import {
  goneToken,
  PEER_FILE_HEADER,
  PEER_HEADER,
} from '../../packages/client/dist/deployment/gateway-files.js';

/** Files of other servers, where the map, FastDFS and the file's gateway say different things. */

const SECRET = 'shared';
const KEY = Buffer.alloc(16);
const NAME = KEY.toString('base64url');
const CONTENT = Buffer.from('the content of a small file');
const UNAVAILABLE = { code: 'storage_unavailable', retryable: true };
const GONE = { code: 'not_found' };

const OLD: MappedFile = {
  trunkFileId: 'group1/M00/00/00/old',
  offset: 0,
  size: CONTENT.length,
  crc32: crc32(CONTENT),
  about: '{}',
  expiresAt: null,
};
const NEW: MappedFile = { ...OLD, trunkFileId: 'group1/M00/00/00/new' };

/** It does not answer. */
const AWAY: readonly undefined[] = [];

interface Asked {
  readonly urls: string[];
  readonly files: ForeignFiles;
}

interface Scene {
  /** What the map says first, and once the answer is forgotten. */
  readonly map: readonly (MappedFile | 'removed' | undefined)[];
  readonly gateway?: RequestListener | 'unknown';
  /** The places that FastDFS still has. */
  readonly places?: readonly MappedFile[];
}

async function scene({ map, gateway = refuse, places = [] }: Scene): Promise<Asked> {
  const urls: string[] = [];
  const server = createServer((request, response) => {
    urls.push(request.url!);
    if (gateway !== 'unknown') gateway(request, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  let answers = map;
  const deployment = {
    origin: 7,
    secret: SECRET,
    find: async () => {
      if (map === AWAY) throw new MapError('map_unavailable', 'away');
      return answers[0];
    },
    forget: () => {
      if (answers.length > 1) answers = answers.slice(1);
    },
    gatewayOf: async () => (gateway === 'unknown' ? undefined : { origin: 0, url }),
  };
  const files = new ForeignFiles({
    deployment: deployment as unknown as Deployment,
    readMapped: async (file, range) => {
      if (places.includes(file)) return CONTENT.subarray(range?.start, range && range.end + 1);
      throw new StoreError('not_found', `there is no ${file.trunkFileId}`);
    },
    onRead: (_, __, read) => read(),
    thinBelowBytes: 0,
    idMaxAgeMs: 0,
    smallFileBytes: 1000,
    now: Date.now,
  });
  onTestFinished(async () => {
    await files.close();
    server.closeAllConnections();
    server.close();
  });
  return { urls, files };
}

const refuse: RequestListener = (_, response) => void response.writeHead(421).end();

const sayGone: RequestListener = (_, response) => {
  response.writeHead(404, { [PEER_HEADER]: goneToken(SECRET, NAME) }).end();
};

/** Has the file, with these facts. */
const has =
  (facts: object = {}): RequestListener =>
  ({ url = '' }, response) => {
    const info = {
      ...{ key: NAME, name: 'f.bin', type: 'text/plain', size: CONTENT.length, state: 'staged' },
      crc32: crc32(CONTENT).toString(16).padStart(8, '0'),
      stagedAt: new Date(0).toISOString(),
      ...facts,
    };
    const head = { [PEER_FILE_HEADER]: Buffer.from(JSON.stringify(info)).toString('base64url') };
    const most = /most=(\d+)/.exec(url)?.[1] ?? CONTENT.length;
    if (Number(most) < CONTENT.length) response.writeHead(204, head).end();
    else response.writeHead(200, { ...head, 'content-length': CONTENT.length }).end(CONTENT);
  };

const read = async ({ files }: Asked): Promise<Buffer> =>
  (await files.find(KEY, undefined)).bytes({ range: { start: 4, end: 10 } });
const PART = CONTENT.subarray(4, 11);

it('a file that compaction has moved is read at its new place', async () => {
  expect(await read(await scene({ map: [OLD, NEW], places: [NEW] }))).toEqual(PART);
});

it('a file that has moved before the map knows of it is read at its gateway', async () => {
  for (const map of [[OLD], [OLD, undefined], [OLD, NEW]]) {
    expect(await read(await scene({ map, gateway: has() }))).toEqual(PART);
  }
});

it('a mapped file that FastDFS does not have is gone only if the map or its gateway says so', async () => {
  await expect(read(await scene({ map: [OLD] }))).rejects.toMatchObject(UNAVAILABLE);
  const unknown = await scene({ map: [OLD], gateway: 'unknown' });
  await expect(read(unknown)).rejects.toMatchObject(UNAVAILABLE);
  const gone = await scene({ map: [OLD], gateway: sayGone });
  await expect(read(gone)).rejects.toMatchObject(GONE);
  const removed = await scene({ map: [OLD, 'removed'] });
  await expect(read(removed)).rejects.toMatchObject(GONE);
  expect(removed.urls).toEqual([]);
});

it('waiting for a FastDFS id asks for no bytes, and ends where there will be none', async () => {
  const merged = await scene({ map: [undefined], gateway: has({ state: 'merged' }) });
  await expect(merged.files.settled(KEY, undefined)).rejects.toMatchObject({
    ...GONE,
    message: expect.stringContaining('no FastDFS id can be made for it'),
  });
  expect(merged.urls).toEqual([`/peer/files/${NAME}?most=0`]);
  const withId = await scene({ map: [undefined], gateway: has({ state: 'merged', fileId: 'id' }) });
  expect(await withId.files.settled(KEY, undefined)).toBe('id');
});

it('waiting for a FastDFS id can be aborted', async () => {
  const { files } = await scene({ map: [undefined], gateway: has() });
  const settled = files.settled(KEY, AbortSignal.timeout(200));
  await expect(settled).rejects.toMatchObject({ name: 'StoreError', code: 'aborted' });
});

it('while the map is away a file is deleted if its own gateway says so, and nobody guesses', async () => {
  const isRemoved = async (gateway: RequestListener | 'unknown') =>
    (await scene({ map: AWAY, gateway })).files.isRemoved(KEY);
  expect(await isRemoved(sayGone)).toBe(true);
  expect(await isRemoved(has())).toBe(false);
  await expect(isRemoved(refuse)).rejects.toMatchObject(UNAVAILABLE);
  const { files, urls } = await scene({ map: ['removed'], gateway: has() });
  expect(await files.isRemoved(KEY)).toBe(true);
  expect(urls).toEqual([]);
});
