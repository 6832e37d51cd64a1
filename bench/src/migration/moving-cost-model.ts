import { FastdfsClient } from '@stevedore/fastdfs';
import type { MigrationStatus } from '@stevedore/tiering';

/**
 * What one write costs that makes a file outgrow its threshold: of our storages, and of the paper's
 * passive migration, put together from the requests that it is made of.
 */

export const TARGET_GROUP = 'target';
export const WAYS = ['none', 'here', 'away', 'passive', 'ahead'] as const;
export type Way = (typeof WAYS)[number];

const PATTERN = Buffer.from(
  Array.from({ length: 6 * 2 ** 20 }, (_, index) => (index * 31 + (index >> 12)) % 251),
);
const POLL_MS = 1;
const END_LIMIT_MS = 60_000;

export interface CostsArgument {
  readonly tracker: string;
  readonly status: (group: string) => MigrationStatus | undefined;
  readonly way: Way;
  /** Bytes of a file before, and of the write. */
  readonly filledBytes: number;
  readonly accessBytes: number;
  readonly files: number;
}

/** One file after the other; its bytes are looked at in the end. */
export async function costs({ tracker, status, way, ...sizes }: CostsArgument) {
  const { filledBytes, accessBytes, files } = sizes;
  await using client = new FastdfsClient({ trackers: [tracker] });
  const before = PATTERN.subarray(0, filledBytes);
  const written = PATTERN.subarray(filledBytes, filledBytes + accessBytes);
  const appender = (bytes: Buffer, group: string) =>
    client.uploadAppender(bytes, { extension: 'dat', group });
  /** Until the writer has its answer; until the file is where it is going to stay. */
  const all: { readonly ownMs: number; readonly endMs: number }[] = [];
  for (let turn = 0; turn < files; turn += 1) {
    const isOurs = way === 'none' || way === 'here' || way === 'away';
    let file = await appender(before, isOurs ? way : 'none');
    const home = file;
    const ahead = way === 'ahead' ? await appender(PATTERN.subarray(0, 1), TARGET_GROUP) : '';
    const movedBefore = status('away')?.moves.moved ?? 0;
    const begun = performance.now();
    if (isOurs) await client.append(file, written);
    else {
      // The server sends what it has, the client what it writes; then the server's record changes.
      const there = filledBytes > 0 ? await client.downloadBytes(file) : before;
      if (way === 'passive') file = await appender(there, TARGET_GROUP);
      else {
        file = ahead;
        if (filledBytes > 1) await client.append(file, there.subarray(1));
      }
      await client.append(file, written);
      await client.setMetadata(home, { moved: file });
    }
    const ownMs = performance.now() - begun;
    const isMoved = () => (status('away')?.moves.moved ?? 0) > movedBefore;
    while (way === 'away' && !isMoved()) {
      if (performance.now() - begun > END_LIMIT_MS) throw new Error(`${file} was not moved`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    all.push({ ownMs, endMs: performance.now() - begun });
    const found = await client.downloadBytes(file);
    const expected = PATTERN.subarray(0, filledBytes + accessBytes);
    if (way !== 'ahead' && !found.equals(expected)) throw new Error(`${file} has other bytes`);
    for (const each of new Set([file, home])) await client.delete(each);
  }
  return all;
}
