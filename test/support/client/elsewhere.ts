import type { RequestListener } from 'node:http';
import { crc32 } from 'node:zlib';
import { StoreError } from '@stevedore/client';
import { MapError, type MappedFile } from '@stevedore/map';
import { onTestFinished } from 'vitest';
import type { Deployment } from '../../../packages/client/dist/deployment/deployment.js';
import { FilesElsewhere } from '../../../packages/client/dist/holders/files-elsewhere.js';
import { Downloads } from '../../../packages/client/dist/read/downloads.js';
import { MissingFiles } from '../../../packages/client/dist/read/missing-files.js';
import { Reader } from '../../../packages/client/dist/read/reader.js';
import { Reads } from '../../../packages/client/dist/read/reads.js';
import { serving } from '../serving.js';
import { PEERS, proven, tellFacts, tellProblem } from './peer-answers.js';

/** A file of another server: what the map, FastDFS, its gateway and the second copy say of it. */

export const KEY = Buffer.alloc(16);
export const CONTENT = Buffer.from('the content of a small file');
/** Of three blocks. */
export const LARGE = Buffer.alloc(700_000, 'a large file ');

export const mapped = (trunkFileId: string, content: Buffer): MappedFile => ({
  ...{ trunkFileId, isThin: false, offset: 0, about: '{}', expiresAt: null },
  ...{ size: content.length, crc32: crc32(content) },
});

/** It does not answer. */
export const AWAY: readonly undefined[] = [];

export interface Asked {
  readonly urls: string[];
  readonly files: FilesElsewhere;
  readonly missing: MissingFiles;
  readonly reader: Reader;
  /** Deleted in the map, or known to be. */
  readonly removed: Buffer[];
}

export interface Scene {
  /** What the map says first, and once the answer is forgotten. */
  readonly map: readonly (MappedFile | 'removed' | undefined)[];
  readonly gateway?: RequestListener | 'unknown';
  /** The places that FastDFS still has. */
  readonly places?: readonly MappedFile[];
  /** How much it has of the others. */
  readonly vanishesAt?: number;
  /** There is a second copy of the gateway's files, in which this is found. */
  readonly held?: { readonly row: object; readonly bytes: Buffer } | 'deleted' | 'nothing';
  /** The gateway that holds that copy, if it is not this one. */
  readonly heldAt?: string;
}

export async function scene(given: Scene): Promise<Asked> {
  const { map, gateway = refuse, places = [], vanishesAt = 0, held, heldAt } = given;
  const removed: Buffer[] = [];
  const urls: string[] = [];
  const url = await serving((request, response) => {
    urls.push(request.url!);
    if (gateway !== 'unknown') proven(gateway)(request, response);
  });
  let answers = map;
  const deployment = {
    origin: 7,
    ...PEERS,
    isAuthoritativeFor: () => false,
    isKnownRemoved: () => false,
    noteRemoved: (key: Buffer) => void removed.push(key),
    known: () => undefined,
    find: async () => {
      if (map === AWAY) throw new MapError('map_unavailable', 'away');
      return answers[0];
    },
    forget: () => {
      if (answers.length > 1) answers = answers.slice(1);
    },
    gatewayOf: async () => (gateway === 'unknown' ? undefined : { origin: 0, url }),
    mayReturn: () => true,
    copiesOf: () => held && { of: 0, at: { origin: heldAt ? 8 : 7, url: heldAt } },
    remove: async (key: Buffer) => void removed.push(key),
  };
  const missing = new MissingFiles(() => undefined);
  const range = async (file: string, start: number, length: number): Promise<Buffer> => {
    const isThere = places.some(({ trunkFileId }) => trunkFileId === file);
    const content = map.some((each) => Object(each).size === LARGE.length) ? LARGE : CONTENT;
    if (isThere || start + length <= vanishesAt) return content.subarray(start, start + length);
    throw notThere(file);
  };
  const client = {
    downloadBytes: (file: string, at: { offset: number; length: number }) =>
      range(file, at.offset, at.length),
    locateAll: async () => [],
    info: (file: string) => range(file, 0, 1),
  };
  const options = { cacheSize: 2 ** 24, cacheFilter: false, readAhead: 0, smallFileLimit: 1000 };
  const reader = new Reader(
    new Downloads(client as never, missing),
    new Reads({} as never),
    {} as never,
    options as never,
  );
  const known = deployment as unknown as Deployment;
  const copies = held && { find: async () => (held === 'nothing' ? undefined : held) };
  const files = new FilesElsewhere(
    known,
    { reader, now: Date.now, deployment: known },
    () => false,
    {} as never,
    copies as never,
  );
  onTestFinished(() => files.close());
  return { urls, files, missing, reader, removed };
}

const notThere = (fileId: string): StoreError =>
  new StoreError('missing_in_fastdfs', `FastDFS no longer has ${fileId}`);

export const refuse: RequestListener = (_, response) => void response.writeHead(421).end();

export const say =
  (problem: string): RequestListener =>
  ({ method }, response) => {
    if (method === 'DELETE') {
      const json = JSON.stringify({ code: problem, detail: '' });
      return response.writeHead(404, { 'content-type': 'application/problem+json' }).end(json);
    }
    const { head, body } = tellProblem(problem);
    response.writeHead(200, head).end(body);
  };

/** Has the file, with these facts. */
export const has =
  (facts: object = {}, content = CONTENT): RequestListener =>
  ({ url = '', headers }, response) => {
    if (url.includes('most=')) {
      const { head, body } = tellFacts(url, content, facts);
      return response.writeHead(200, head).end(body);
    }
    const [, start = 0, end = content.length - 1] =
      /bytes=(\d+)-(\d+)/.exec(headers.range ?? '')?.map(Number) ?? [];
    const part = content.subarray(start, end + 1);
    response.writeHead(headers.range ? 206 : 200, { 'content-length': part.length }).end(part);
  };
