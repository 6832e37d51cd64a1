import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, type DiskFile, decoratedFile, localDisk } from '@stevedore/disk';
import { encodeFields } from '@stevedore/protocol';
import { type Environment, systemEnvironment } from '../../packages/storage/dist/environment.js';
import {
  type AwayContent,
  AwayError,
  type AwayFiles,
} from '../../packages/storage/dist/tiers/away-files.js';
import {
  type OpenedTiers,
  openTiers,
  type TierEvents,
} from '../../packages/storage/dist/tiers/open-tiers.js';
import type { Tier } from '../../packages/storage/dist/tiers/tier.js';
import { type TierOptions, tierSettings } from '../../packages/storage/dist/tiers/tier-options.js';

/** A tiered disk over a folder, used as a storage uses its disk. */

export const THRESHOLD = 4096;
export const NAME = '00/00/file.txt';
export const OTHER_GROUP = 'group2';
export const Place = { row: 0, file: 1, away: 2 } as const;

export interface Opening {
  readonly events?: Partial<TierEvents>;
  readonly options?: TierOptions;
  readonly away?: AwayFiles;
  readonly disk?: Disk;
  readonly environment?: Environment;
}

export async function openIn(folder: string, opening: Opening = {}): Promise<OpenedTiers> {
  const { events, options, away, disk = localDisk, environment = systemEnvironment } = opening;
  const onError = (error: Error): void => {
    throw error;
  };
  mkdirSync(join(folder, 'data', '.tmp'), { recursive: true });
  return openTiers(
    { disk, environment, storePaths: [folder], away, onError },
    tierSettings({ enabled: true, thresholdBytes: THRESHOLD, ...options }, 'group1'),
    { onAccess: () => {}, onCut: () => {}, onGrown: () => {}, onMoved: () => {}, ...events },
  );
}

export function tierOf({ tiers }: OpenedTiers): Tier {
  return tiers[0]!;
}

/** A storage removes what is there of temporary files when it starts. */
function removeTemporaries(folder: string): void {
  for (const name of readdirSync(join(folder, 'data', '.tmp'))) {
    rmSync(join(folder, 'data', '.tmp', name));
  }
}

let temporaries = 0;

/** A file as an upload makes it: complete and durable when this resolves. */
export async function store(
  opened: OpenedTiers,
  folder: string,
  name: string,
  bytes: Buffer,
): Promise<void> {
  const { disk } = opened;
  temporaries += 1;
  const temporary = join(folder, 'data', '.tmp', `t-${temporaries}`);
  const file = await disk.create(temporary);
  await file.writeAt([bytes.subarray(0, 10), bytes.subarray(10)], 0);
  await file.setModified(1_700_000_000);
  await file.sync();
  await file.close();
  const path = join(folder, 'data', name);
  // What is no row needs its directory.
  if (bytes.length > THRESHOLD) mkdirSync(dirname(path), { recursive: true });
  await disk.rename(temporary, path);
  if (bytes.length > THRESHOLD) await disk.syncDirectory(dirname(path));
  else await tierOf(opened).records.commit();
}

/** All bytes of the file; undefined if there is none. */
export async function contentOf(
  opened: OpenedTiers,
  folder: string,
  name: string,
): Promise<Buffer | undefined> {
  const path = join(folder, 'data', name);
  if (!(await opened.disk.exists(path))) return undefined;
  const file = await opened.disk.openToRead(path);
  try {
    const { size } = await file.stat();
    const bytes = Buffer.alloc(size + 1);
    const read = await file.readAt(bytes, 0);
    return bytes.subarray(0, read);
  } finally {
    await file.close();
  }
}

/** Changes a file as an append, an overwriting or a cut does. */
export async function change(
  opened: OpenedTiers,
  folder: string,
  name: string,
  make: { at: number; bytes: Buffer } | { size: number },
): Promise<void> {
  const file = await opened.disk.openToUpdate(join(folder, 'data', name));
  try {
    if ('size' in make) await file.truncate(make.size);
    else await file.writeAt([make.bytes], make.at);
    await file.setModified(1_700_000_001);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Another group in memory, which can be away, alter bytes, or take a file and not say so. */
export class OtherGroup implements AwayFiles {
  readonly files = new Map<string, Buffer>();
  isAway = false;
  alters = false;
  losesAnswers = false;
  /** Called before anything is done. */
  onCall: () => void | Promise<void> = () => {};
  #count = 0;

  async store(group: string, tag: string, content: AwayContent): Promise<string> {
    await this.#begin();
    const chunks: Buffer[] = [];
    for await (const chunk of content.chunks()) chunks.push(Buffer.from(chunk));
    const bytes = Buffer.concat(chunks);
    if (this.alters) bytes[0]! ^= 1;
    this.#count += 1;
    const fields = encodeFields({
      source: '10.0.0.2',
      createdAtSeconds: this.#count,
      sizeField: BigInt(bytes.length),
      crc32: crc32(bytes),
    });
    const id = `${group}/M00/00/00/${fields}.m${tag}`;
    this.files.set(id, bytes);
    if (this.losesAnswers) throw new AwayError('the answer is lost', true, undefined);
    return id;
  }

  async read(id: string, offset: number, length: number): Promise<Buffer> {
    await this.#begin();
    const bytes = this.files.get(id);
    if (!bytes) throw Object.assign(new Error(id), { code: 'not_found' });
    return bytes.subarray(offset, offset + length);
  }

  async remove(id: string): Promise<void> {
    await this.#begin();
    this.files.delete(id);
  }

  async *list(group: string, tag: string): AsyncGenerator<string> {
    await this.#begin();
    for (const id of this.files.keys()) {
      if (id.startsWith(`${group}/`) && id.endsWith(`.m${tag}`)) yield id;
    }
  }

  async #begin(): Promise<void> {
    await this.onCall();
    await new Promise(setImmediate);
    if (this.isAway) throw new AwayError('away', false, undefined);
  }
}

class Killed extends Error {}

/** What a process does to the world, counted; from one point on nothing of it happens. */
export class Points {
  killAt = Number.POSITIVE_INFINITY;
  passed = 0;

  pass(): void {
    this.passed += 1;
    if (this.passed >= this.killAt) throw new Killed();
  }

  /** A disk, and what it opens, that ends at the point. */
  over(disk: Disk): Disk {
    const calls = Object.keys(disk) as (keyof Disk)[];
    const killable = calls.map((name) => {
      const call = disk[name] as (...given: unknown[]) => Promise<unknown>;
      return [
        name,
        async (...given: unknown[]) => {
          this.pass();
          const result = await call.apply(disk, given);
          return isFile(result) ? this.#file(result) : result;
        },
      ];
    });
    return Object.fromEntries(killable) as Disk;
  }

  #file(file: DiskFile): DiskFile {
    return decoratedFile(file, {
      writeAt: async (chunks, position) => {
        this.pass();
        await file.writeAt(chunks, position);
      },
      sync: async () => {
        this.pass();
        await file.sync();
      },
    });
  }
}

function isFile(value: unknown): value is DiskFile {
  return typeof value === 'object' && value !== null && 'writeAt' in value;
}

/** A storage whose process ends at the n-th thing that it does; gives what the next one finds. */
export async function killedAt(
  folder: string,
  at: number,
  away: OtherGroup,
  prepare: (opened: OpenedTiers) => Promise<unknown>,
  act: (opened: OpenedTiers) => Promise<unknown>,
): Promise<{ opened: OpenedTiers; wasKilled: boolean }> {
  const points = new Points();
  const disk = points.over(localDisk);
  const dying = await openIn(folder, { disk, away });
  await prepare(dying);
  const { records } = tierOf(dying);
  const commit = records.commit.bind(records);
  records.commit = async () => {
    points.pass();
    await commit();
  };
  away.onCall = () => points.pass();
  points.killAt = points.passed + at;
  await act(dying).catch((error: unknown) => {
    if (points.passed < points.killAt) throw error;
  });
  const wasKilled = points.passed >= points.killAt;
  away.onCall = () => {};
  records.abandon();
  removeTemporaries(folder);
  return { opened: await openIn(folder, { away }), wasKilled };
}
