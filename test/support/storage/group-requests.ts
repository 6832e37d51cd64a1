import { deferred } from '@stevedore/async';
import type { FileName } from '@stevedore/protocol';
import { watchedDisk } from '../watched-disk.js';
import type { MemberOfTest } from './group.js';

/** What tests of a group ask its members for. */

export async function download(member: MemberOfTest, file: FileName): Promise<string | number> {
  const client = await member.connect();
  const read = await client.read(file);
  client.socket.destroy();
  return Buffer.isBuffer(read) ? read.toString('latin1') : read;
}

/** A disk on which new files can be held up. */
export function gatedDisk() {
  let gate: Promise<void> | undefined;
  const disk = watchedDisk(async ({ operation, path }, run) => {
    if (operation === 'sync' && !path.includes('binlog')) await gate;
    return run();
  });
  const hold = (): (() => void) => {
    const { promise, resolve } = deferred<void>();
    gate = promise;
    return () => {
      gate = undefined;
      resolve();
    };
  };
  return { disk, hold };
}
