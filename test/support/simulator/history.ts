import { setImmediate as nextTurn } from 'node:timers/promises';
import { Random } from '../random.js';
import type { FileMapHarm } from './file-map-image.js';
import { large, some } from './scripts.js';
import { runSeeded } from './seeded-history.js';
import type { FaultCode } from './simulated-disk.js';
import { CRASH_MODES } from './simulated-file.js';
import { type HostOptions, SimulatedHost } from './simulated-host.js';

/**
 * A random history of one host: puts, deletions, merges, restarts, crashes, faults of
 * the disk, outages and lies of the trunk store, jumps of the clock, and harm to the
 * FileMap. After each step what was acknowledged is held against what is there. The
 * seed decides all but the exact interleaving with work in the background.
 */

const STEPS = 15;
const STARTS = 3;
const DAY_MS = 86_400_000;
const AFTER_KILL: readonly FileMapHarm[] = ['kept', 'kept', 'deleted', 'damaged'];
const AFTER_POWER_FAILURE: readonly FileMapHarm[] = ['kept', 'stale', 'torn', 'deleted', 'damaged'];
const FAULT_CODES: readonly FaultCode[] = ['EIO', 'ENOSPC', 'EMFILE'];

type Step = (history: History) => Promise<void> | void;

const STEPS_BY_WEIGHT: readonly (readonly [number, string, Step])[] = [
  [6, 'put', (history) => history.put()],
  [4, 'delete', (history) => history.delete()],
  [4, 'flush', (history) => history.flush()],
  [2, 'put, delete and flush', (history) => history.atOnce()],
  [2, 'restart', (history) => history.restart()],
  [3, 'crash', (history) => history.crash()],
  [3, 'crash while at work', (history) => history.crashAtWork()],
  [2, 'disk fault', (history) => history.failDisk()],
  [1, 'trunk store away or back', (history) => history.toggleStore()],
  [1, 'trunk store lies', (history) => history.lie()],
  [1, 'clock jump', (history) => history.jump()],
  [1, 'delete most, so that trunks are emptied', (history) => history.deleteMost()],
  [1, 'a storage damages a file', (history) => history.rot()],
  [1, 'check and repair', (history) => history.repair()],
];

export function runHistory(seed: number): Promise<History> {
  return runSeeded(seed, new History(seed));
}

export class History {
  readonly lines: string[] = [];
  host: SimulatedHost;
  readonly #random: Random;
  readonly #seed: number;
  #isAway = false;
  #lies = 0;
  /** Failures of the disk since the process was started. */
  #failuresBefore = 0;

  constructor(seed: number) {
    this.#seed = seed;
    const random = new Random(seed);
    const options: HostOptions = {
      segmentBytes: random.pick([600, 2500, 2 ** 20]),
      retain: random.pick([0, 5000, 2 ** 20]),
      trunkSize: random.pick([4096, 65_536]),
      containerSize: random.pick([30_000, 2 ** 24, 2 ** 24]),
    };
    this.#random = random;
    this.lines.push(JSON.stringify(options));
    this.host = this.#adopt(new SimulatedHost(options, random));
  }

  async run(): Promise<void> {
    await this.#start('none');
    for (let step = 0; step < STEPS; step++) {
      const [, name, work] = this.#random.pickByWeight(STEPS_BY_WEIGHT);
      this.lines.push(name);
      await work(this);
      await this.#check();
    }
    this.lines.push('the end');
    this.host.disk.heal();
    this.#isAway = false;
    await this.#flush();
    await this.#check();
    await this.restart();
    await this.#check();
    // Looking through the whole trunk store takes its time.
    if (this.#seed % 4 === 0) await this.host.checkStore();
    await this.#check();
  }

  async put(): Promise<void> {
    const { host } = this;
    const calls = Array.from({ length: 1 + this.#random.below(4) }, () => {
      const kind = this.#random.below(5);
      if (kind === 0) return large(host);
      if (kind === 1) return some(host, 2 + this.#random.below(3), `g${this.#random.below(2)}`);
      return some(host, 1);
    });
    await Promise.all(calls.map((contents) => host.put(contents)));
  }

  async delete(): Promise<void> {
    const kept = this.host.ledger.in('kept', 'undeleted');
    const count = this.#random.below(4) === 0 ? kept.length : 1 + this.#random.below(2);
    const chosen = new Set(Array.from({ length: count }, () => this.#random.below(kept.length)));
    const keys = [...chosen].flatMap((index) => kept[index]?.key ?? []);
    await Promise.all(keys.map((key) => this.host.delete(key)));
  }

  /** Of what was put in a row, all but a few files. */
  async deleteMost(): Promise<void> {
    const kept = this.host.ledger.in('kept', 'undeleted');
    const from = this.#random.below(Math.max(1, kept.length));
    const chosen = kept.slice(from, from + 12).filter(() => this.#random.below(5) > 0);
    await Promise.all(chosen.map(({ key }) => this.host.delete(key)));
  }

  /** Nothing may be found lost, and a repair harms nothing. */
  async repair(): Promise<void> {
    if (this.#isAway || this.host.disk.isFailing) return;
    await this.host.repair();
  }

  /** The scrub finds it, and stores the file again from the other storage. */
  async rot(): Promise<void> {
    if (this.#isAway || this.host.disk.isFailing) return;
    const kept = this.host.ledger.in('kept', 'undeleted');
    const stored = kept.filter(({ places, bytes }) => places.size > 0 && bytes.length > 60);
    if (stored.length > 0) await this.host.mend(this.#random.pick(stored).key);
  }

  async flush(): Promise<void> {
    if (!this.#isAway) await this.#flush();
  }

  async atOnce(): Promise<void> {
    await Promise.all([this.put(), this.flush(), this.delete()]);
  }

  async restart(): Promise<void> {
    const harm = this.#random.pick<FileMapHarm>(['kept', 'kept', 'deleted', 'damaged']);
    this.#note(`FileMap ${harm}`);
    await this.host.close();
    const tookBack = !this.#failures().some((what) => what.startsWith('truncate'));
    this.host.harmFileMap(harm);
    await this.#start(tookBack ? 'none' : 'refused');
  }

  async crash(): Promise<void> {
    const mode = this.#random.pick(CRASH_MODES);
    const harm = this.#random.pick(mode === 'killed' ? AFTER_KILL : AFTER_POWER_FAILURE);
    this.#note(`${mode}, FileMap ${harm}`);
    this.host = this.#adopt(this.host.crash(mode, harm));
    await this.#start('all');
  }

  async crashAtWork(): Promise<void> {
    const work = this.#random
      .pick([
        this.put,
        this.flush,
        this.delete,
        this.atOnce,
        this.deleteMost,
        this.repair,
        this.rot,
      ])
      .call(this);
    work.catch(() => undefined);
    for (let turns = this.#random.below(30); turns > 0; turns--) await nextTurn();
    await this.crash();
  }

  failDisk(): void {
    const code = this.#random.pick(FAULT_CODES);
    const at = this.host.disk.operations + 1 + this.#random.below(12);
    this.#note(`${code} at operation ${at}`);
    this.host.disk.fail({ at, code, once: true, short: this.#random.below(2) === 0 });
  }

  toggleStore(): void {
    this.#isAway = !this.#isAway;
    this.#note(this.#isAway ? 'away' : 'back');
  }

  lie(): void {
    this.#lies = 1;
  }

  jump(): void {
    const ms = Math.round((this.#random.next() - 0.5) * 2 * DAY_MS);
    this.#note(`${ms} ms`);
    this.host.clock += ms;
  }

  #adopt(host: SimulatedHost): SimulatedHost {
    host.isTolerant = true;
    if (process.env.TEST_TRACE) host.onPoint = (what) => this.#trace(what);
    host.store.beforeStore = () => {
      if (this.#isAway) throw new Error('the trunk store is away');
    };
    host.store.beforeRead = () => {
      if (this.#isAway) throw new Error('the trunk store is away');
    };
    host.store.damage = (bytes) => {
      this.#lies -= 1;
      return this.#lies >= 0 ? bytes.subarray(1) : bytes;
    };
    this.#failuresBefore = 0;
    return host;
  }

  async #start(open: 'all' | 'refused' | 'none'): Promise<void> {
    for (let attempt = 1; !this.host.isRunning; attempt++) {
      const failures = this.host.disk.failures.length;
      try {
        await this.host.start();
      } catch (error) {
        const isExcused = this.host.disk.failures.length > failures;
        if (!isExcused || attempt === STARTS) throw error;
        this.#note(`not started: ${(error as Error).message}`);
      }
    }
    const { ledger, staging } = this.host;
    ledger.isSettled = open === 'none';
    if (!staging.rebuild.isComplete) {
      this.#note('the FileMap is not complete until the trunk store is back');
      await this.#check();
      this.#isAway = false;
      await this.host.until(() => staging.rebuild.isComplete, true);
    }
    ledger.settle(staging, open);
    this.#failuresBefore = this.host.disk.failures.length;
  }

  async #flush(): Promise<void> {
    await this.host.flush();
  }

  async #check(): Promise<void> {
    const { failures } = this.host.disk;
    const before = failures.length;
    await this.host.check(this.host.disk.isFailing ? 'may fail' : 'must work');
    if (failures.length > before) this.#note(`failed: ${failures.slice(before).join()}`);
  }

  #failures(): string[] {
    return this.host.disk.failures.slice(this.#failuresBefore);
  }

  #trace(what: string): void {
    if (what.startsWith('after')) this.lines.push(`  ${what.slice('after '.length)}`);
  }

  #note(text: string): void {
    this.lines[this.lines.length - 1] += `: ${text}`;
  }
}
