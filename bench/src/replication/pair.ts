import { setTimeout as sleep } from 'node:timers/promises';
import { FastdfsClient } from '@stevedore/fastdfs';
import { startTracker, type Tracker } from '@stevedore/tracker';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { AS_THE_COMMAND, Child } from '../harness/child.js';
import type { MemberHandlers } from './member-process.js';

/** A group of two members, each a process of its own, and a client of it. */

const HOSTS = ['127.0.1.2', '127.0.1.3'] as const;
const LOOK_MS = 5;
const MAX_WAIT_MS = 120_000;

export class Pair implements AsyncDisposable {
  readonly client: FastdfsClient;
  readonly #tracker: Tracker;
  readonly #writeCopies: number;
  readonly #directories: readonly [string, string];
  readonly #members: [Child<MemberHandlers> | undefined, Child<MemberHandlers> | undefined] = [
    undefined,
    undefined,
  ];
  #port = 0;

  private constructor(context: BenchmarkContext, tracker: Tracker, writeCopies: number) {
    this.#tracker = tracker;
    this.#writeCopies = writeCopies;
    this.#directories = [context.workspace.fresh('member'), context.workspace.fresh('member')];
    this.client = new FastdfsClient({ trackers: [this.#address] });
  }

  static async start(context: BenchmarkContext, writeCopies: number): Promise<Pair> {
    const tracker = await startTracker({ host: '127.0.1.1', port: 0, reservedSpaceMegabytes: 64 });
    const pair = new Pair(context, tracker, writeCopies);
    try {
      await pair.startMember(0);
      await pair.startMember(1);
      await pair.level();
      return pair;
    } catch (error) {
      await pair[Symbol.asyncDispose]();
      throw error;
    }
  }

  async startMember(index: 0 | 1): Promise<void> {
    const child = new Child<MemberHandlers>(
      'member',
      new URL('./member-process.js', import.meta.url),
      AS_THE_COMMAND,
    );
    this.#members[index] = child;
    this.#port = await child.call('start', {
      host: HOSTS[index],
      port: this.#port,
      directory: this.#directories[index],
      tracker: this.#address,
      writeCopies: this.#writeCopies,
    });
  }

  async stopMember(index: 0 | 1): Promise<void> {
    await this.#members[index]?.[Symbol.asyncDispose]();
    this.#members[index] = undefined;
  }

  /** Of a member, since it was started. */
  cpuSeconds(index: 0 | 1): Promise<number> {
    return this.#members[index]!.cpuSeconds();
  }

  /** Resolves when the second member has the whole log of the first. */
  async level(): Promise<void> {
    const giveUpAt = performance.now() + MAX_WAIT_MS;
    while ((await this.#members[0]!.call('lagBytes', undefined)) !== 0) {
      if (performance.now() > giveUpAt) throw new Error('a member does not catch up');
      await sleep(LOOK_MS);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
    await Promise.all([this.stopMember(0), this.stopMember(1)]);
    await this.#tracker.close();
  }

  get #address(): string {
    return `${this.#tracker.host}:${this.#tracker.port}`;
  }
}
