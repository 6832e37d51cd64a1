import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { localDisk } from '@stevedore/disk';
import { systemEnvironment } from '../../packages/storage/dist/environment.js';
import type { Guests } from '../../packages/storage/dist/guests/guests.js';
import {
  type OpenedTiers,
  openTiers,
  type TierEvents,
} from '../../packages/storage/dist/tiers/open-tiers.js';
import type { Tier } from '../../packages/storage/dist/tiers/tier.js';
import { tierSettings } from '../../packages/storage/dist/tiers/tier-options.js';

/** A tiered disk over a folder, used as a storage uses its disk. */

export const THRESHOLD = 4096;
export const NAME = '00/00/file.txt';

export async function openIn(
  folder: string,
  events: Partial<TierEvents> = {},
  enabled = true,
  guests?: Guests,
): Promise<OpenedTiers> {
  mkdirSync(join(folder, 'data', '.tmp'), { recursive: true });
  for (const low of ['00', '01']) mkdirSync(join(folder, 'data', '00', low), { recursive: true });
  const opened = await openTiers(
    { disk: localDisk, environment: systemEnvironment, storePaths: [folder], guests },
    tierSettings({ enabled, thresholdBytes: THRESHOLD }),
    { onAccess: () => {}, onCut: () => {}, onMoved: () => {}, ...events },
  );
  if (!opened) throw new Error('the tiers are off');
  return opened;
}

export function tierOf({ tiers }: OpenedTiers): Tier {
  return tiers[0]!;
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
  await disk.rename(temporary, join(folder, 'data', name));
  await disk.syncDirectory(dirname(join(folder, 'data', name)));
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
