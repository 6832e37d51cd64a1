import { randomFillSync } from 'node:crypto';
import { crc32 } from 'node:zlib';
import {
  type NewFile,
  type Staging,
  type StagingOptions,
  smallFile,
  type TrunkStore,
} from '@stevedore/staging';

/** Small bodies and keys that are known by their number, and Staging that takes them. */

const DAY_MS = 86_400_000;
const GIB = 2 ** 30;

/** Staging as the SDK opens it, but nothing is merged before the caller asks for it. */
export function stagingOptions(
  directory: string,
  trunkStore: TrunkStore,
  changed: Partial<StagingOptions> = {},
): StagingOptions {
  return {
    directory,
    connect: () => Promise.resolve(trunkStore),
    trunkSize: 2 * GIB,
    mergeMaxAge: DAY_MS,
    containerSize: 40 * GIB,
    retain: GIB,
    durability: 'os',
    now: Date.now,
    randomFill: (target) => randomFillSync(target),
    packingSeed: 1,
    ...changed,
  };
}

/** No two are equal; `index` stands at the beginning. */
export function bodyOf(index: number, bytes: number): Buffer {
  const body = Buffer.alloc(bytes, index & 0xff);
  body.writeUInt32LE(index, 0);
  return body;
}

/** A file to be staged, with a key of its own. */
export function newFile(staging: Staging, index: number, body: Buffer): NewFile {
  const facts = {
    key: staging.keys.next(),
    name: `upload-${index}.jpg`,
    type: 'image/jpeg',
    group: undefined,
    size: body.length,
    crc32: crc32(body),
    stagedAt: Date.now(),
  };
  return smallFile(facts, [body]);
}

/** Keys of generated rows: in order of time, with bits that look random. */
export function generatedKey(row: number): Buffer {
  const key = Buffer.allocUnsafe(16);
  key.writeUIntBE(FIRST_KEY_MS + row, 0, 6);
  key.writeUInt16BE(GENERATED_ORIGIN, 6);
  key.writeUInt32BE(mix(row), 8);
  key.writeUInt32BE(mix(row ^ 0x5bd1e995), 12);
  return key;
}

const FIRST_KEY_MS = 1_700_000_000_000;
const GENERATED_ORIGIN = 7;

function mix(value: number): number {
  let hash = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
