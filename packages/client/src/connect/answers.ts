import { type Readable, Transform } from 'node:stream';
import { crc32 } from 'node:zlib';
import { StoreError } from '@stevedore/staging/errors';
import { parseTime } from '../list/texts.js';
import { DELETED } from '../store/receipt.js';
import type { FileInfo, FilePage, Flushed, GroupPage, IdPendingReason } from '../store/types.js';

/** Checks a gateway's answers: the facts of a file, and its bytes. */

interface InfoJson extends Pick<FileInfo, 'key' | 'name' | 'size' | 'type' | 'state'> {
  readonly crc32: string;
  readonly stagedAt: string;
  readonly affinityGroup?: string;
  readonly expiresAt?: string;
  readonly pictureOf?: string;
  readonly fileId?: string;
  readonly copies?: 1 | 2;
  readonly idPending?: { readonly reason: IdPendingReason; readonly by?: string };
}

/** The facts in a gateway's JSON; undefined if it is malformed. */
export function infoOf(json: unknown): FileInfo | undefined {
  const facts = json as Partial<InfoJson> | null | undefined;
  if (facts?.state === 'deleted') return DELETED;
  const isSound =
    typeof facts?.key === 'string' &&
    typeof facts.name === 'string' &&
    typeof facts.type === 'string' &&
    Number.isSafeInteger(facts.size) &&
    /^[0-9a-f]{8}$/.test(facts.crc32 ?? '') &&
    parseTime(facts.stagedAt ?? '') !== undefined;
  if (!isSound) return undefined;
  const { key, name, size, type, state, affinityGroup, expiresAt, fileId, idPending, ...rest } =
    facts as InfoJson;
  const { pictureOf, copies } = rest;
  const by = idPending?.by === undefined ? {} : { by: new Date(idPending.by) };
  return {
    key,
    name,
    size,
    type,
    state,
    crc32: Number.parseInt(rest.crc32, 16),
    stagedAt: new Date(rest.stagedAt),
    ...(affinityGroup === undefined ? {} : { group: affinityGroup }),
    ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt) }),
    ...(pictureOf === undefined ? {} : { pictureOf }),
    ...(fileId === undefined ? {} : { fileId }),
    ...(copies === undefined ? {} : { copies }),
    ...(idPending === undefined ? {} : { idPending: { reason: idPending.reason, ...by } }),
  };
}

/** The page of a listing in a gateway's JSON; undefined if it is malformed. */
export function pageOf(json: unknown): FilePage | undefined {
  const { files } = Object(json) as Partial<Record<keyof FilePage, unknown>>;
  if (!Array.isArray(files)) return undefined;
  const infos = files.map(infoOf);
  if (!infos.every((info) => info !== undefined)) return undefined;
  return { files: infos, ...endOf(json) };
}

/** The page of groups in a gateway's JSON; undefined if it is malformed. */
export function groupPageOf(json: unknown): GroupPage | undefined {
  const { groups } = Object(json) as Partial<Record<keyof GroupPage, unknown>>;
  if (!Array.isArray(groups) || !groups.every((name) => typeof name === 'string')) return undefined;
  return { groups, ...endOf(json) };
}

function endOf(json: unknown): Pick<FilePage, 'next' | 'away'> {
  const { next } = Object(json) as { readonly next?: unknown };
  return { ...(typeof next === 'string' ? { next } : {}), ...awayOf(json) };
}

/** Which servers a gateway could not ask. */
export function awayOf(json: unknown): Flushed {
  const { away } = Object(json) as { readonly away?: unknown };
  const isAway = Array.isArray(away) && away.every((origin) => Number.isSafeInteger(origin));
  return isAway ? { away } : {};
}

/** Destroys a body that nobody reads; an unhandled error of it would end the process. */
export function discard(body: Readable): void {
  body.on('error', () => undefined).destroy();
}

/** Throws if there are more than `mostBytes`. */
export async function readAll(
  stream: AsyncIterable<Buffer>,
  mostBytes = Number.POSITIVE_INFINITY,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > mostBytes) throw new Error(`more than ${mostBytes} bytes`);
    chunks.push(chunk);
  }
  const [only] = chunks;
  return only && chunks.length === 1 ? only : Buffer.concat(chunks);
}

/**
 * Passes bytes on; fails with `corrupt` if their number or their CRC-32 is wrong. `failure` converts
 * the error of a broken stream to the one that the reader gets.
 */
export function checksumStream(
  bytes: number,
  expected: number | undefined,
  url: string,
  failure: (error: Error) => StoreError,
): Transform {
  let left = bytes;
  let crc = 0;
  const isWrong = (): boolean => left !== 0 || (expected !== undefined && crc !== expected);
  return new Transform({
    transform(chunk: Buffer, _, done) {
      left -= chunk.length;
      if (expected !== undefined) crc = crc32(chunk, crc);
      // Withhold the last bytes, so that nobody takes the file for complete.
      if (left <= 0 && isWrong()) done(corrupt(url));
      else done(null, chunk);
    },
    flush: (done) => done(isWrong() ? corrupt(url) : null),
    destroy: (error, done) => done(error && failure(error)),
  });
}

export function corrupt(url: string): StoreError {
  return new StoreError('corrupt', `${url} sent bytes that are not the file's`, {
    retryable: true,
  });
}
