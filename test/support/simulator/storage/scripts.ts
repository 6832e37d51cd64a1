import type { Script } from '../subject.js';
import type { StorageHost } from './host.js';
import type { Entry } from './ledger.js';

/**
 * Small histories of a storage, whose every crash point is tried: each kind of file
 * and each change of one, alone and beside others.
 */

/** Bytes that are like no others. */
export function someBytes(host: StorageHost, count: number): Buffer {
  const words = new Int32Array(Math.ceil(count / 4));
  let word = host.random.below(2 ** 32);
  for (let at = 0; at < words.length; at++) {
    word = (Math.imul(word ^ (word >>> 15), 0x2c1b3c6d) + at) | 0;
    words[at] = word;
  }
  return Buffer.from(words.buffer, 0, count);
}

/** Beyond what a storage keeps of a change in memory. */
export const LARGE_BYTES = 70_000;

async function appender(host: StorageHost, count: number): Promise<Entry> {
  return host.uploadAppender(someBytes(host, count));
}

export const STORAGE_SCRIPTS: readonly Script<StorageHost>[] = [
  {
    name: 'uploads, alone and at once, in new directories',
    async run(host) {
      await host.upload(someBytes(host, 900));
      await Promise.all([1, 2, 3].map((count) => host.upload(someBytes(host, count * 700))));
      await host.upload(Buffer.alloc(0));
      await host.close();
      await host.start();
      await host.upload(someBytes(host, 2000));
    },
  },
  {
    name: 'files that a program on this disk hands over, beside uploads',
    async run(host) {
      await host.hand(someBytes(host, 6000));
      await Promise.all([
        host.hand(someBytes(host, LARGE_BYTES)),
        host.upload(someBytes(host, 500)),
        host.hand(Buffer.alloc(0)),
      ]);
      await host.close();
      await host.start();
      await host.delete(await host.hand(someBytes(host, 100)));
    },
  },
  {
    name: 'appends, small and large',
    async run(host) {
      const file = await appender(host, 600);
      await host.append(file, someBytes(host, 1500));
      await host.append(file, someBytes(host, LARGE_BYTES));
      await host.append(file, someBytes(host, 10));
      const others = [await appender(host, 0), await appender(host, 5)];
      await Promise.all(others.map((each) => host.append(each, someBytes(host, 1000))));
    },
  },
  {
    name: 'modifications inside, at the end and beyond it',
    async run(host) {
      const file = await appender(host, 3000);
      await host.modify(file, 100, someBytes(host, 1200));
      await host.modify(file, 2900, someBytes(host, 900));
      await host.modify(file, 50, someBytes(host, LARGE_BYTES));
      await host.modify(file, 0, someBytes(host, 1));
    },
  },
  {
    name: 'truncations, growth, and appends between them',
    async run(host) {
      const file = await appender(host, 2500);
      await host.truncate(file, 700);
      await host.append(file, someBytes(host, 900));
      await host.truncate(file, 4000);
      await host.truncate(file, 0);
      await host.append(file, someBytes(host, 30));
    },
  },
  {
    name: 'changes while somebody reads',
    async run(host) {
      const file = await appender(host, 2000);
      await host.reading(file, async () => {
        await host.modify(file, 100, someBytes(host, 1000));
        await host.append(file, someBytes(host, 500));
        await host.truncate(file, 40);
      });
      await host.append(file, someBytes(host, 600));
    },
  },
  {
    name: 'appenders that become normal files, with their metadata',
    async run(host) {
      const file = await appender(host, 800);
      await host.append(file, someBytes(host, 700));
      await host.setMetadata(file, { width: '640', height: '480' });
      const next = await host.regenerate(file);
      await host.setMetadata(next, { width: '1' });
      const other = await appender(host, 10);
      await host.regenerate(other);
    },
  },
  {
    name: 'slaves',
    async run(host) {
      const master = await host.upload(someBytes(host, 1000));
      const slave = await host.uploadSlave(master, '_small', someBytes(host, 800));
      await host.delete(slave);
      await host.delete(master);
    },
  },
  {
    name: 'metadata that is set, replaced and taken away',
    async run(host) {
      const file = await host.upload(someBytes(host, 500));
      await host.setMetadata(file, { author: 'one' });
      await host.setMetadata(file, { author: 'another', place: 'x'.repeat(200) });
      await host.setMetadata(file, {});
      await host.setMetadata(file, { last: 'words' });
      await host.delete(file);
    },
  },
  {
    name: 'deletions of files of each kind',
    async run(host) {
      const files = [await host.upload(someBytes(host, 300)), await appender(host, 300)];
      await host.append(files[1]!, someBytes(host, 50));
      await host.setMetadata(files[1]!, { a: 'b' });
      await Promise.all(files.map((file) => host.delete(file)));
      await host.delete(await host.upload(someBytes(host, 1)));
    },
  },
  {
    name: 'slices that are deleted, and their trunk',
    async run(host) {
      const trunk = await host.uploadTrunk(
        [700, 20, 3000, 1, 0].map((size) => someBytes(host, size)),
      );
      await host.deleteSlice(trunk, 1);
      await host.deleteSlice(trunk, 0);
      await host.close();
      await host.start();
      await host.deleteSlice(trunk, 3);
      await host.delete(trunk);
    },
  },
  {
    name: 'clients that leave in the middle',
    async run(host) {
      const file = await appender(host, 100);
      const { isTolerant } = host;
      host.isTolerant = true;
      await host.upload(someBytes(host, 5000), 'bin', 3000);
      await host.append(file, someBytes(host, 4000), 1000);
      await host.append(file, someBytes(host, LARGE_BYTES), LARGE_BYTES - 1);
      host.isTolerant = isTolerant;
      await host.append(file, someBytes(host, 9));
    },
  },
];
