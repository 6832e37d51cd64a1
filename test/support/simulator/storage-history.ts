import { setImmediate as nextTurn } from 'node:timers/promises';
import { Random } from '../random.js';
import { runSeeded } from './seeded-history.js';
import type { FaultCode } from './simulated-disk.js';
import { CRASH_MODES } from './simulated-file.js';
import { StorageHost } from './storage-host.js';
import type { Entry, Kind } from './storage-ledger.js';
import { LARGE_BYTES, someBytes } from './storage-scripts.js';

/**
 * Random histories of a storage: files of each kind, changes of them one by one and at
 * once, restarts, kills and power failures between requests and in the middle of them,
 * faults of the disk, jumps of the clock. What was answered is looked at every few
 * steps, behind every start and at the end. The seed gives the same history again.
 */

const STEPS = 10;
const LOOK_EVERY = 5;
const STARTS = 8;
const DAY_MS = 86_400_000;
const FAULT_CODES: readonly FaultCode[] = ['EIO', 'EIO', 'ENOSPC', 'EMFILE'];

type Step = readonly [weight: number, name: string, work: (history: StorageHistory) => unknown];

const STEPS_BY_WEIGHT: readonly Step[] = [
  [5, 'some changes at once', (history) => history.change(1 + history.random.below(4))],
  [8, 'a change', (history) => history.change(1)],
  [2, 'a restart', (history) => history.restart()],
  [2, 'a crash', (history) => history.crash()],
  [4, 'a crash in the middle', (history) => history.crashAtWork()],
  [3, 'a fault', (history) => history.failDisk()],
  [1, 'a jump of the clock', (history) => history.jump()],
];

export function runStorageHistory(seed: number): Promise<StorageHistory> {
  return runSeeded(seed, new StorageHistory(seed));
}

export class StorageHistory {
  readonly lines: string[] = [];
  readonly random: Random;
  host: StorageHost;

  constructor(seed: number) {
    this.random = new Random(seed);
    this.host = new StorageHost(this.random);
    this.host.isTolerant = true;
  }

  async run(): Promise<void> {
    await this.#start(false);
    for (let step = 1; step <= STEPS; step++) {
      const [, name, work] = this.random.pickByWeight(STEPS_BY_WEIGHT);
      this.lines.push(name);
      await work(this);
      if (step % LOOK_EVERY === 0) await this.#check(false);
    }
    this.lines.push('the end');
    this.host.disk.heal();
    await this.#check(false);
    await this.restart();
    this.host.checkDisk();
    await this.#check(false);
  }

  /** Changes of different files, at once. */
  async change(count: number): Promise<void> {
    const used = new Set<number>();
    const works = Array.from({ length: count }, () => this.#anyChange(used));
    await Promise.all(works);
  }

  async restart(): Promise<void> {
    await this.host.close();
    await this.#start(false);
  }

  async crash(): Promise<void> {
    const mode = this.random.pick(CRASH_MODES);
    this.#note(mode);
    this.host = this.host.crash(mode);
    this.host.isTolerant = true;
    await this.#start(mode !== 'killed');
  }

  async crashAtWork(): Promise<void> {
    const work = this.change(1 + this.random.below(4));
    work.catch(() => undefined);
    for (let turns = this.random.below(20); turns > 0; turns--) await nextTurn();
    await this.crash();
  }

  failDisk(): void {
    const code = this.random.pick(FAULT_CODES);
    const at = this.host.disk.operations + 1 + this.random.below(20);
    const once = this.random.below(4) > 0;
    this.#note(`${code} ${once ? 'once' : 'for good'} at operation ${at}`);
    this.host.disk.fail({ at, code, once, short: this.random.below(2) === 0 });
  }

  jump(): void {
    const ms = Math.round((this.random.next() - 0.5) * 2 * DAY_MS);
    this.#note(`${ms} ms`);
    this.host.clock += ms;
  }

  #anyChange(used: Set<number>): Promise<unknown> {
    const { host, random } = this;
    const bytes = (): Buffer =>
      someBytes(host, random.below(12) === 0 ? LARGE_BYTES : random.below(3000));
    const one = (...kinds: readonly Kind[]): Entry | undefined => {
      const free = host.ledger.living(...kinds).filter(({ id }) => !used.has(id));
      const entry = free.length > 0 ? random.pick(free) : undefined;
      if (entry) used.add(entry.id);
      return entry;
    };
    const file = (): Entry | undefined => one('normal', 'appender', 'slave');
    const kind = random.below(13);
    this.#note(String(kind));
    if (kind === 0) return host.upload(bytes());
    if (kind === 1) return host.uploadTrunk([bytes(), bytes(), bytes()]);
    if (kind === 2) return host.upload(someBytes(host, 4000), 'bin', random.below(4000));
    const appender = kind < 8 ? one('appender') : undefined;
    if (kind < 8 && !appender) return host.uploadAppender(bytes());
    if (kind <= 4) return host.append(appender!, bytes());
    const [size] = [appender?.possible[0]?.bytes?.length ?? 0];
    if (kind === 5) return host.modify(appender!, random.below(size + 1), bytes());
    if (kind === 6) return host.truncate(appender!, random.below(size * 2 + 1));
    if (kind === 7) return host.regenerate(appender!);
    const target = kind === 9 ? one('normal') : file();
    if (!target) return host.upload(bytes());
    if (kind === 8)
      return host.setMetadata(target, random.below(3) === 0 ? {} : { a: this.#text() });
    if (kind === 9) return host.link(target);
    if (kind === 10) return host.delete(target);
    const slice = target.slices.findIndex(({ possible }) => possible.includes(true));
    if (kind === 11 && slice >= 0) return host.deleteSlice(target, slice);
    return host.uploadSlave(target, `_${this.#text()}`, bytes());
  }

  #text(): string {
    return this.random.below(2 ** 30).toString(36);
  }

  async #start(settles: boolean): Promise<void> {
    for (let attempt = 1; !this.host.isRunning; attempt++) {
      const failures = this.host.disk.failures.length;
      try {
        await this.host.start();
      } catch (error) {
        const isExcused = this.host.disk.failures.length > failures;
        if (!isExcused) throw error;
        this.#note(`not started: ${(error as Error).message}`);
        if (attempt === STARTS) this.host.disk.heal();
      }
    }
    if (!this.host.disk.isFailing) {
      this.host.checkDisk();
      await this.#check(settles);
    }
  }

  async #check(settles: boolean): Promise<void> {
    const { disk } = this.host;
    const before = disk.failures.length;
    const isFailing = disk.isFailing;
    await this.host.check(isFailing ? 'may fail' : 'must work', settles);
    if (disk.failures.length > before) this.#note(`failed: ${disk.failures.slice(before).join()}`);
  }

  #note(text: string): void {
    if (this.lines.length > 0) this.lines[this.lines.length - 1] += `: ${text}`;
  }
}
