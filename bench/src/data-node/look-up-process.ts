import { FileCache } from '@stevedore/cache';
import { cpuUsed } from '../harness/process-cpu.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { SEED } from './plan.js';

/** The measured process: look-ups in a full cache, nothing else. */

const FILES = 3000;
const FILE_BYTES = 20_000;
const CACHE_BYTES = 128 * 2 ** 20;

/** CPU time of one look-up, in microseconds. */
export async function measure(filter: boolean, found: boolean, lookUps: number): Promise<number> {
  const cache = new FileCache({ maxBytes: CACHE_BYTES, filter, aheadShare: 0.2 });
  const bytes = Buffer.allocUnsafeSlow(FILE_BYTES);
  const kept = idsOf('AAAAABcPUxx');
  for (const id of kept) await cache.get(id, async () => bytes);
  const asked = found ? kept : idsOf('BAAAACdQVyy');
  const random = new SeededRandom(SEED).next;
  const order = Uint16Array.from({ length: 65_536 }, () => Math.floor(random() * FILES));
  const look = (count: number): number => {
    let hits = 0;
    for (let index = 0; index < count; index += 1) {
      if (cache.find(asked[order[index & 0xffff]!]!)) hits += 1;
    }
    return hits;
  };
  look(lookUps >> 2);
  const before = cpuUsed();
  const hits = look(lookUps);
  const microseconds = ((cpuUsed() - before) / lookUps) * 1e6;
  if (hits !== (found ? lookUps : 0)) throw new Error(`${hits} of ${lookUps} were found`);
  return microseconds;
}

/** Ids as a storage has them: a trunk's path and a slice of it. */
function idsOf(nameEnd: string): string[] {
  const random = new SeededRandom(SEED).next;
  const trunk = `/var/lib/stevedore/data/3F/A2/CgAAAWkfT0qIABCD${nameEnd}.merged`;
  return Array.from({ length: FILES }, (_, index) => {
    const crc32 = Math.floor(random() * 2 ** 32);
    return `${trunk}@${index * 20_100}-${FILE_BYTES}-${crc32}`;
  });
}
