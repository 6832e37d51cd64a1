import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import type { FileName } from '@stevedore/protocol';
import { Closing } from '../harness/closing.js';
import { type Driven, startClock } from '../harness/load.js';
import { NodeConnection } from '../harness/node-connection.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { Zipf } from '../harness/zipf.js';

/**
 * The load. A thread of it is a connection that asks for one file after the other: it chooses a group
 * by its popularity and asks for its members in turn, most of them, as a browser does for a page's
 * images. Every answer is held against its CRC-32.
 */

export interface Member {
  readonly name: FileName;
  readonly size: number;
  readonly crc: number;
}

export interface Target {
  readonly port: number;
  /** What is stored there, in the order of its popularity. */
  readonly groups: readonly (readonly Member[])[];
}

export interface ReadOptions {
  readonly threads: number;
  readonly seconds: number;
  /** No more requests than these. */
  readonly maxRequests: number;
  readonly seed: number;
  /** One write for so many reads; false: reads alone. */
  readonly mixed: boolean;
  /** In a model: what takes time is the disk, and what a server needs for a request. */
  readonly isModel: boolean;
}

/** Of the popularity of groups: the k-th most popular one is asked for k^-s as often. */
const ZIPF_EXPONENT = 0.8;
/** Chance of each member of a group to be asked for when the group is. */
const MEMBER_CHANCE = 0.9;
const READS_PER_WRITE = 20;
export const FILE_EXTENSION = 'jpg';
const WRITTEN = Buffer.alloc(20_000, 'written');
/** A processor of the paper's machines, and their 1 Gbit/s. */
const REQUEST_MS = 0.1;
const WIRE_BYTES_PER_MS = 125_000;

/** What a server answers passes it one after the other. */
class Server {
  #freeAtMs = 0;

  async pass(bytes: number): Promise<void> {
    const nowMs = performance.now();
    this.#freeAtMs = Math.max(this.#freeAtMs, nowMs) + REQUEST_MS + bytes / WIRE_BYTES_PER_MS;
    const waitMs = this.#freeAtMs - nowMs;
    // Timers have whole milliseconds: what is less adds up.
    if (waitMs >= 1) await sleep(waitMs);
  }
}

export async function read(targets: readonly Target[], options: ReadOptions): Promise<Driven> {
  const { threads, seconds, maxRequests, seed, mixed, isModel } = options;
  await using closing = new Closing();
  const connect = () =>
    Promise.all(targets.map(async ({ port }) => closing.use(await NodeConnection.open(port))));
  const connections = await Promise.all(Array.from({ length: threads }, connect));
  const servers = targets.map(() => new Server());
  let operations = 0;
  const clock = startClock();
  const endMs = performance.now() + seconds * 1000;
  // Not before the first: a rate of nothing is no figure.
  const isOver = () => operations > 0 && (operations >= maxRequests || performance.now() >= endMs);
  const thread = async (own: readonly NodeConnection[], index: number): Promise<void> => {
    const random = new SeededRandom(seed * 1000 + index).next;
    const zipfs = targets.map(({ groups }) => new Zipf(groups.length, ZIPF_EXPONENT, random));
    let untilWrite = Math.floor(random() * READS_PER_WRITE);
    const answered = async (at: number, bytes: number): Promise<void> => {
      if (isModel) await servers[at]!.pass(bytes);
      operations += 1;
    };
    while (!isOver()) {
      const at = Math.floor(random() * targets.length);
      for (const { name, size, crc } of targets[at]!.groups[zipfs[at]!.next() - 1]!) {
        if (isOver()) return;
        if (random() >= MEMBER_CHANCE) continue;
        const file = await own[at]!.download(name);
        if (file.length !== size || crc32(file) !== crc) {
          throw new Error(`${name.name} came back with other bytes`);
        }
        await answered(at, size);
        untilWrite -= 1;
        if (!mixed || untilWrite > 0) continue;
        untilWrite = READS_PER_WRITE;
        await own[at]!.upload([WRITTEN], WRITTEN.length, FILE_EXTENSION);
        await answered(at, WRITTEN.length);
      }
    }
  };
  await Promise.all(connections.map(thread));
  return { operations, ...clock() };
}
