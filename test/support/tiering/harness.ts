import { cpSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, localDisk } from '@stevedore/disk';
import { encodeFields } from '@stevedore/protocol';
import { type TierOptions, tierSettings } from '../../../packages/tiering/dist/tier-options.js';
import {
  type RemoteContent,
  RemoteError,
  type RemoteFiles,
} from '../../../packages/tiering/dist/tiers/remote-files.js';
import type { Tier } from '../../../packages/tiering/dist/tiers/tier.js';
import {
  TieredFiles,
  type TieredFilesParts,
} from '../../../packages/tiering/dist/tiers/tiered-files.js';
import { Tiers } from '../../../packages/tiering/dist/tiers/tiers.js';
import { type Environment, systemEnvironment } from '../../../packages/wire/dist/server/limits.js';
import { temporaryFolder } from '../temporary.js';
import { watchedDisk } from '../watched-disk.js';

/** Tiered files in a folder, used as a storage uses its backend. */

export const THRESHOLD = 4096;
export const NAME = '00/00/file.txt';
export const OTHER_GROUP = 'group2';
export const Place = { row: 0, file: 1, remote: 2 } as const;

export interface Opened {
  readonly tiers: Tiers;
  readonly files: TieredFiles;
  close(): Promise<void>;
}

export interface Opening {
  readonly events?: Partial<Pick<TieredFilesParts, 'onAccess' | 'onCut' | 'onGrown'>>;
  readonly options?: TierOptions;
  readonly remote?: RemoteFiles;
  readonly disk?: Disk;
  readonly environment?: Environment;
  /** Store paths after the first. */
  readonly further?: readonly string[];
}

export async function openIn(folder: string, opening: Opening = {}): Promise<Opened> {
  const { events, options, remote, disk = localDisk, environment = systemEnvironment } = opening;
  const storePaths = [folder, ...(opening.further ?? [])];
  mkdirSync(join(folder, 'data', '.tmp'), { recursive: true });
  const tiers = await Tiers.open(
    { disk, environment, storePaths, remote },
    tierSettings({ enabled: true, thresholdBytes: THRESHOLD, ...options }, 'group1'),
  );
  const files = new TieredFiles({
    disk,
    tiers,
    nowSeconds: () => Math.floor(environment.now() / 1000),
    onAccess: () => {},
    onCut: () => {},
    onGrown: () => {},
    ...events,
  });
  return { tiers, files, close: () => tiers.close() };
}

export function tierOf({ tiers }: Opened): Tier {
  return tiers.all[0]!;
}

/** What the disk of a process that is killed now has. */
export function killed(folder: string): string {
  const left = temporaryFolder();
  cpSync(folder, left, { recursive: true });
  return left;
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
  opened: Opened,
  folder: string,
  name: string,
  bytes: Buffer,
): Promise<void> {
  const { files } = opened;
  const path = join(folder, 'data', name);
  if (name.endsWith('-m')) {
    return files.setMetadata(path.slice(0, -2), { text: bytes, mtimeSeconds: 1_700_000_000 });
  }
  temporaries += 1;
  const { content, moveTo } = await files.create(join(folder, 'data', '.tmp', `t-${temporaries}`));
  await content.writeAt([bytes.subarray(0, 10), bytes.subarray(10)], 0);
  await content.setModified(1_700_000_000);
  await content.sync();
  await content.close();
  // What is no row needs its directory.
  if (bytes.length > THRESHOLD) mkdirSync(dirname(path), { recursive: true });
  await moveTo(path);
  if (bytes.length > THRESHOLD) await files.sync(path);
  else await Promise.all(opened.tiers.all.map(({ records }) => records.commit()));
}

/** All bytes of the file; undefined if there is none. */
export async function contentOf(
  opened: Opened,
  folder: string,
  name: string,
): Promise<Buffer | undefined> {
  const path = join(folder, 'data', name);
  if (name.endsWith('-m')) return (await opened.files.metadata(path.slice(0, -2)))?.text;
  if (!(await opened.files.exists(path))) return undefined;
  const file = await opened.files.openToRead(path);
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
  opened: Opened,
  folder: string,
  name: string,
  make: { at: number; bytes: Buffer } | { size: number },
): Promise<void> {
  const file = await opened.files.openToChange(join(folder, 'data', name));
  try {
    if ('size' in make) await file.truncate(make.size);
    else await file.writeAt([make.bytes], make.at);
    await file.setModified(1_700_000_001);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Another group in memory, which can be remote, alter bytes, or take a file and not say so. */
export class OtherGroup implements RemoteFiles {
  readonly files = new Map<string, Buffer>();
  isAway = false;
  alters = false;
  losesAnswers = false;
  /** Called before anything is done. */
  onCall: () => void | Promise<void> = () => {};
  #count = 0;

  async store(group: string, tag: string, content: RemoteContent): Promise<string> {
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
    if (this.losesAnswers) throw new RemoteError('the answer is lost', true, undefined);
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
    if (this.isAway) throw new RemoteError('remote', false, undefined);
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
    const isLook = (operation: string) => ['readAt', 'truncate', 'close'].includes(operation);
    return watchedDisk(({ operation }, run) => {
      if (!isLook(operation)) this.pass();
      return run();
    }, disk);
  }
}

/** A storage whose process ends at the n-th thing that it does; gives what the next one finds. */
export async function killedAt(
  folder: string,
  at: number,
  remote: OtherGroup,
  prepare: (opened: Opened) => Promise<unknown>,
  act: (opened: Opened) => Promise<unknown>,
): Promise<{ opened: Opened; folder: string; wasKilled: boolean }> {
  const points = new Points();
  const disk = points.over(localDisk);
  const dying = await openIn(folder, { disk, remote });
  await prepare(dying);
  const { records } = tierOf(dying);
  const commit = records.commit.bind(records);
  records.commit = async () => {
    points.pass();
    await commit();
  };
  remote.onCall = () => points.pass();
  points.killAt = points.passed + at;
  await act(dying).catch((error: unknown) => {
    if (points.passed < points.killAt) throw error;
  });
  const wasKilled = points.passed >= points.killAt;
  remote.onCall = () => {};
  const left = killed(folder);
  records.commit = commit;
  await dying.close();
  removeTemporaries(left);
  return { opened: await openIn(left, { remote }), folder: left, wasKilled };
}
