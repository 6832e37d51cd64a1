import { randomFillSync } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import {
  type NewFile,
  Staging,
  type StagingOptions,
  smallFile,
  spooledFile,
} from '@stevedore/staging';
import { expect, onTestFinished } from 'vitest';
import { MemoryTrunkStore } from './memory-trunk-store.js';

export { until } from './until.js';

const MIB = 2 ** 20;

export interface OpenedStaging {
  readonly staging: Staging;
  readonly store: MemoryTrunkStore;
  readonly errors: Error[];
}

/** Staging over a FastDFS in memory, with small sizes and no merging by itself. */
const MISTAKES = new Set(['TypeError', 'ReferenceError', 'RangeError', 'AssertionError']);

export async function openStaging(
  directory: string,
  options: Partial<StagingOptions> = {},
  store = new MemoryTrunkStore(),
): Promise<OpenedStaging> {
  const staging = await Staging.open({
    directory,
    connect: async () => store,
    trunkSize: MIB,
    mergeMaxAge: 3_600_000,
    containerSize: 64 * MIB,
    retain: 32 * MIB,
    durability: 'sync',
    listingGraceMs: 0,
    now: Date.now,
    randomFill: (target) => randomFillSync(target),
    packingSeed: 1,
    ...options,
  });
  const errors: Error[] = [];
  staging.changes.on('error', (error) => errors.push(error));
  onTestFinished(async () => {
    await staging.close();
    // What happens to disks and servers is handled; these are mistakes.
    expect(errors.filter(({ name }) => MISTAKES.has(name))).toEqual([]);
  });
  return { staging, store, errors };
}

interface StagedMeta {
  readonly name?: string;
  readonly group?: string;
  readonly expiresAt?: number;
  readonly once?: string;
  readonly pictureOf?: Buffer;
}

export async function stageFile(
  staging: Staging,
  bytes: Buffer,
  meta: StagedMeta = {},
): Promise<Buffer> {
  const file = newFile(staging, bytes, meta);
  const { acceptance, copies } = staging;
  copies?.demand();
  const isCopied = await acceptance.stage([file]);
  await copies?.acknowledge([file], isCopied);
  return file.key;
}

/** All at once: the Merge Task sees every one of them or none. */
export async function stageTogether(staging: Staging, contents: readonly Buffer[]): Promise<void> {
  await staging.acceptance.stage(contents.map((bytes) => newFile(staging, bytes, {})));
}

function newFile(staging: Staging, bytes: Buffer, meta: StagedMeta): NewFile {
  const facts = {
    key: staging.keys.next(),
    name: meta.name ?? 'file.bin',
    type: 'application/octet-stream',
    group: meta.group,
    expiresAt: meta.expiresAt,
    once: meta.once,
    pictureOf: meta.pictureOf,
    size: bytes.length,
    crc32: crc32(bytes),
    stagedAt: Date.now(),
  };
  return smallFile(facts, [bytes]);
}

/** A large file, the way the SDK stages it. */
export async function spoolFile(staging: Staging, bytes: Buffer): Promise<Buffer> {
  const key = staging.keys.next();
  const writer = await staging.acceptance.beginSpooled(key, bytes.length);
  await writer.write([bytes]);
  await writer.finish(true);
  const facts = {
    key,
    name: 'large.bin',
    type: 'application/octet-stream',
    group: undefined,
    size: bytes.length,
    crc32: writer.crc32,
    stagedAt: Date.now(),
  };
  await staging.acceptance.stage([spooledFile(facts, writer.blocks)]);
  return key;
}

/** Names of the container's segments, oldest first; a reserve may lie beside them. */
export function segmentsIn(folder: string): string[] {
  const names = readdirSync(join(folder, 'container'));
  return names.filter((name) => name.endsWith('.seg')).sort();
}

/** The next start makes it anew. */
export function forgetFileMap(folder: string): void {
  for (const suffix of ['', '-wal', '-shm']) {
    rmSync(join(folder, `filemap.sqlite${suffix}`), { force: true });
  }
}
