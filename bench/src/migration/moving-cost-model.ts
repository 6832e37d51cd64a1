import { FastdfsClient } from '@stevedore/fastdfs';
import type { MigrationStatus } from '@stevedore/tiering';

/**
 * What one write costs that makes a file outgrow its threshold, and what the next write of that size
 * costs: of our storages, and of the paper's passive migration and its target made ahead, made of the
 * requests that move a file here: an upload to the other group, and a synced change of the record at
 * home.
 */

export const TARGET_GROUP = 'target';
export const WAYS = ['none', 'here', 'away', 'passive', 'ahead'] as const;
export type Way = (typeof WAYS)[number];

const PATTERN = Buffer.from(
  Array.from({ length: 10 * 2 ** 20 }, (_, index) => (index * 31 + (index >> 12)) % 251),
);
const POLL_MS = 1;
const END_LIMIT_MS = 60_000;

export interface CostsArgument {
  readonly tracker: string;
  readonly status: (group: string) => MigrationStatus | undefined;
  readonly way: Way;
  /** Bytes of a file before, and of each write. */
  readonly filledBytes: number;
  readonly accessBytes: number;
  readonly files: number;
}

export interface Cost {
  /** Until the writer has its answer. */
  readonly ownMs: number;
  /** Until the file is where it is going to stay. */
  readonly endMs: number;
  /** Of the next write. Undefined for passive migration: the file is as one that was moved. */
  readonly nextMs: number | undefined;
}

/** One file after the other; its bytes are looked at in the end. */
export async function costs({ tracker, status, way, ...sizes }: CostsArgument): Promise<Cost[]> {
  const { filledBytes, accessBytes, files } = sizes;
  await using client = new FastdfsClient({ trackers: [tracker] });
  const before = PATTERN.subarray(0, filledBytes);
  const write = (turn: number) => {
    const from = filledBytes + turn * accessBytes;
    return PATTERN.subarray(from, from + accessBytes);
  };
  const appender = (bytes: Buffer, group: string) =>
    client.uploadAppender(bytes, { extension: 'dat', group });
  const timed = async (work: () => Promise<unknown>) => {
    const begun = performance.now();
    await work();
    return performance.now() - begun;
  };
  const moved = () => status('away')?.moves.moved ?? 0;
  const isOurs = way === 'none' || way === 'here' || way === 'away';
  const all: Cost[] = [];
  for (let turn = 0; turn < files; turn += 1) {
    const home = await appender(before, isOurs ? way : 'none');
    // Made when the file passes the mark before its threshold, while nobody waits.
    const isAhead = way === 'ahead' && filledBytes > 0;
    let file = isAhead ? await appender(before, TARGET_GROUP) : home;
    const movedBefore = moved();
    const ownMs = await timed(async () => {
      if (isOurs || isAhead) await client.append(file, write(0));
      else {
        const there = filledBytes > 0 ? await client.downloadBytes(home) : before;
        file = await client.upload(Buffer.concat([there, write(0)]), { group: TARGET_GROUP });
      }
      if (!isOurs) await client.setMetadata(home, { moved: file });
    });
    const moving = await timed(async () => {
      for (let waited = 0; way === 'away' && moved() === movedBefore; waited += POLL_MS) {
        if (waited > END_LIMIT_MS) throw new Error(`${file} was not moved`);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    });
    const isNext = isOurs || isAhead;
    const nextMs = isNext ? await timed(() => client.append(file, write(1))) : undefined;
    all.push({ ownMs, endMs: ownMs + moving, nextMs });
    const written = filledBytes + (isNext ? 2 : 1) * accessBytes;
    if (!(await client.downloadBytes(file)).equals(PATTERN.subarray(0, written))) {
      throw new Error(`${file} has other bytes`);
    }
    for (const each of new Set([file, home])) await client.delete(each);
  }
  return all;
}
