import type { Script } from '../subject.js';
import type { HostOptions, NewContent, StagingHost } from './host.js';

/**
 * Small histories of one host each, whose every crash point is tried. Between them
 * they stage alone and together, merge, delete in each state, spool, drop segments,
 * retire trunks, restart, and live through a trunk store that is away or lies.
 */
type StagingScript = Script<StagingHost, HostOptions>;

/** Segments of one or two files, and nothing retained once it is merged. */
const TIGHT = { segmentBytes: 2500, retain: 0 } as const;

export const SCRIPTS: readonly StagingScript[] = [
  {
    name: 'stage alone, at once and in one call',
    async run(host) {
      await host.put(some(host, 1));
      await Promise.all([1, 2, 3].map(() => host.put(some(host, 1))));
      await host.put([{ bytes: Buffer.alloc(0) }, ...some(host, 2, 'g')]);
    },
  },
  {
    name: 'merge files and groups',
    async run(host) {
      await host.put(some(host, 3, 'g'));
      await Promise.all([host.put(some(host, 2)), host.put(some(host, 1, 'g'))]);
      await host.flush();
      await Promise.all([host.put(some(host, 2)), host.flush()]);
    },
  },
  {
    name: 'delete staged, packing and merged files',
    async run(host) {
      await host.put(some(host, 5));
      await host.delete(nthKept(host, 1));
      let isFirst = true;
      host.store.beforeStore = async () => {
        if (isFirst) await host.delete(nthKept(host, 2));
        isFirst = false;
      };
      await host.flush();
      await host.delete(nthKept(host, 0));
    },
  },
  {
    name: 'large files',
    async run(host) {
      await Promise.all([host.put(large(host)), host.put(large(host))]);
      await host.put(some(host, 1));
      await host.flush();
      await host.delete(nthKept(host, 0));
      await host.put(large(host));
      await host.delete(nthKept(host, 2));
    },
  },
  {
    name: 'drop segments and spooled files',
    options: TIGHT,
    async run(host) {
      for (let round = 0; round < 2; round++) {
        for (let index = 0; index < 4; index++) await host.put(some(host, 1));
        await host.put(large(host));
        await host.flush();
        await host.delete(nthKept(host, round));
      }
      await host.put(some(host, 1));
    },
  },
  {
    name: 'delete all, so that trunks go',
    options: TIGHT,
    async run(host) {
      await host.put(some(host, 3));
      await host.put(large(host));
      await host.flush();
      for (const { key } of host.ledger.in('kept')) await host.delete(key);
      await host.until(() => host.store.files.size === 0);
      await host.put(some(host, 2));
      await host.flush();
    },
  },
  {
    name: 'restart again and again',
    options: TIGHT,
    async run(host) {
      for (let round = 0; round < 3; round++) {
        await host.put(some(host, 2));
        if (round > 0) await host.delete(nthKept(host, 0));
        if (round === 1) await host.flush();
        await host.close();
        await host.start();
      }
    },
  },
  {
    name: 'a trunk store that is away, then lies, then stores',
    async run(host) {
      let calls = 0;
      host.store.beforeStore = () => {
        calls += 1;
        if (calls === 1) throw new Error('away');
      };
      host.store.damage = (bytes) => (calls === 2 ? bytes.subarray(1) : bytes);
      await host.put(some(host, 3));
      await Promise.all([host.flush(), host.put(some(host, 1))]);
    },
  },
  {
    name: 'delete most of a trunk',
    options: TIGHT,
    async run(host) {
      await host.put(some(host, 5));
      await host.flush();
      for (const { key } of host.ledger.in('kept').slice(0, 4)) await host.delete(key);
      await host.put(some(host, 1));
      await host.flush();
    },
  },
  {
    name: 'lose the FileMap, and go on while it is made anew',
    options: TIGHT,
    async run(host) {
      await Promise.all([host.put(some(host, 2)), host.put(large(host))]);
      await host.flush();
      await host.put(some(host, 2));
      await host.flush();
      await host.delete(nthKept(host, 1));
      await host.close();
      host.harmFileMap('deleted');
      await host.start();
      await host.until(() => host.staging.rebuild.isComplete);
      await host.delete(nthKept(host, 2));
      await host.flush();
    },
  },
  {
    name: 'check and repair while a trunk is emptied',
    options: TIGHT,
    async run(host) {
      await host.put(some(host, 4));
      await host.flush();
      await Promise.all([host.repair(), host.delete(nthKept(host, 0))]);
      for (const { key } of host.ledger.in('kept').slice(0, 2)) await host.delete(key);
      await Promise.all([host.repair(), host.put(some(host, 1))]);
      await host.flush();
      await host.repair();
    },
  },
  {
    name: 'mend a large file that a storage has damaged, from this disk',
    async run(host) {
      await host.put(large(host));
      await host.flush();
      await host.mend(nthKept(host, 0));
      await host.flush();
      await host.until(() => host.store.files.size === 1);
    },
  },
  {
    name: 'mend large files that a storage has damaged, from another storage',
    options: TIGHT,
    async run(host) {
      await Promise.all([host.put(large(host)), host.put(large(host))]);
      await host.flush();
      const [first, second] = [nthKept(host, 0), nthKept(host, 1)];
      await Promise.all([host.mend(first), host.delete(first)]);
      await host.mend(second);
      await host.flush();
      await host.until(() => host.store.files.size === 1);
    },
  },
];

/** Files of up to a few sectors. */
export function some(host: StagingHost, count: number, group?: string): NewContent[] {
  return Array.from({ length: count }, () => ({
    bytes: content(host, 1 + host.random.below(1500)),
    ...(group === undefined ? {} : { group }),
  }));
}

export function large(host: StagingHost): NewContent[] {
  return [{ bytes: content(host, 3000 + host.random.below(3000)), large: true }];
}

function content(host: StagingHost, size: number): Buffer {
  const bytes = Buffer.alloc(size);
  for (let at = 0; at < size; at++) bytes[at] = host.random.below(256);
  return bytes;
}

function nthKept(host: StagingHost, index: number): Buffer {
  return host.ledger.in('kept')[index]!.key;
}
