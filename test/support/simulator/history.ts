import { setImmediate as nextTurn } from 'node:timers/promises';
import { Random } from '../random.js';
import type { FaultCode } from './disk.js';
import type { Crash, Host, Undecided } from './subject.js';

/**
 * A random history of one host: steps of its own kind, restarts, crashes between requests and in
 * the middle of them, faults of the disk, jumps of the clock. What was answered is looked at every
 * few steps, behind every start and at the end. The seed decides all but the exact interleaving with
 * work in the background.
 */

const STARTS = 8;
const DAY_MS = 86_400_000;
const FAULT_CODES: readonly FaultCode[] = ['EIO', 'ENOSPC', 'EMFILE'];

export type Step = readonly [weight: number, name: string, work: () => Promise<void> | void];

export abstract class History<Of extends Host & { clock: number }, Kind extends Crash> {
  readonly lines: string[] = [];
  readonly random: Random;
  protected readonly seed: number;
  protected abstract readonly stepCount: number;
  protected abstract readonly lookEvery: number;
  /** Failures of the disk since the process was started. */
  #failuresBefore = 0;

  constructor(seed: number) {
    this.seed = seed;
    this.random = new Random(seed);
  }

  abstract host: Of;
  /** By weight; restarts, crashes, faults and jumps are among them by `common`. */
  protected abstract steps(): readonly Step[];
  /** Any of its own kind, which a crash may come into. */
  protected abstract anyWork(): Promise<void>;
  protected abstract crashes(): Kind;
  protected abstract hostAfter(crash: Kind): Of;

  /** Before a look, where a start has left something to wait for. */
  protected async settled(_undecided: Undecided): Promise<void> {}
  /** While the process does not run. */
  protected harm(): void {}
  protected async atTheEnd(): Promise<void> {}

  /** Runs it to its end; what goes wrong is told with the seed and all steps. */
  async run(): Promise<void> {
    try {
      await this.#run();
    } catch (error) {
      const steps = this.lines.join('\n');
      const message = `STEVEDORE_TEST_SEED=${this.seed}: ${(error as Error).message}\n${steps}`;
      throw new Error(message, { cause: error });
    } finally {
      await this.host.dispose();
    }
  }

  async #run(): Promise<void> {
    await this.#start('none');
    const steps = this.steps();
    for (let step = 1; step <= this.stepCount; step++) {
      const [, name, work] = this.random.pickByWeight(steps);
      this.lines.push(name);
      await work();
      if (step % this.lookEvery === 0) await this.#check();
    }
    this.lines.push('the end');
    this.host.disk.heal();
    await this.atTheEnd();
    await this.#check();
    await this.restart();
    await this.host.audit();
    await this.#check();
  }

  protected get common(): readonly Step[] {
    return [
      [2, 'a restart', () => this.restart()],
      [3, 'a crash', () => this.crash()],
      [4, 'a crash in the middle', () => this.#crashAtWork()],
      [3, 'a fault of the disk', () => this.#failDisk()],
      [1, 'a jump of the clock', () => this.#jump()],
    ];
  }

  protected async restart(): Promise<void> {
    await this.host.close();
    const failed = this.host.disk.failures.slice(this.#failuresBefore);
    this.harm();
    await this.#start(failed.some((what) => what.startsWith('truncate')) ? 'refused' : 'none');
  }

  protected async crash(): Promise<void> {
    const crash = this.crashes();
    this.note(JSON.stringify(crash));
    this.host = this.hostAfter(crash);
    this.host.isTolerant = true;
    this.#failuresBefore = 0;
    await this.#start('all', crash);
  }

  protected note(text: string): void {
    if (this.lines.length > 0) this.lines[this.lines.length - 1] += `: ${text}`;
  }

  async #crashAtWork(): Promise<void> {
    const work = this.anyWork();
    work.catch(() => undefined);
    for (let turns = this.random.below(30); turns > 0; turns--) await nextTurn();
    await this.crash();
  }

  #failDisk(): void {
    const code = this.random.pick(FAULT_CODES);
    const at = this.host.disk.operations + 1 + this.random.below(15);
    const once = this.random.below(8) > 0;
    this.note(`${code} ${once ? 'once' : 'for good'} at operation ${at}`);
    this.host.disk.fail({ at, code, once, short: this.random.below(2) === 0 });
  }

  #jump(): void {
    const ms = Math.round((this.random.next() - 0.5) * 2 * DAY_MS);
    this.note(`${ms} ms`);
    this.host.clock += ms;
  }

  async #start(undecided: Undecided, crash?: Crash): Promise<void> {
    const { disk } = this.host;
    for (let attempt = 1; !this.host.isRunning; attempt++) {
      const failures = disk.failures.length;
      try {
        await this.host.start();
      } catch (error) {
        const isExcused = disk.failures.length > failures;
        if (!isExcused) throw error;
        this.note(`not started: ${(error as Error).message}`);
        if (attempt === STARTS) disk.heal();
      }
    }
    await this.settled(undecided);
    await this.host.started(undecided, crash);
    this.#failuresBefore = disk.failures.length;
  }

  async #check(): Promise<void> {
    const { disk } = this.host;
    const before = disk.failures.length;
    await this.host.check(disk.isFailing ? 'may fail' : 'must work');
    if (disk.failures.length > before) this.note(`failed: ${disk.failures.slice(before).join()}`);
  }
}
