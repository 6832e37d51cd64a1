import { CRASH_MODES } from '../file.js';
import { History, type Step } from '../history.js';
import type { Undecided } from '../subject.js';
import type { FileMapHarm } from './file-map-image.js';
import { type HostOptions, type StagingCrash, StagingHost } from './host.js';
import { large, some } from './scripts.js';

/**
 * Staging under puts, deletions, merges, outages and lies of the trunk store, harm to the FileMap,
 * and copies that a storage damages.
 */

const AFTER_KILL: readonly FileMapHarm[] = ['kept', 'kept', 'deleted', 'damaged'];
const AFTER_POWER_FAILURE: readonly FileMapHarm[] = ['kept', 'stale', 'torn', 'deleted', 'damaged'];

export class StagingHistory extends History<StagingHost, StagingCrash> {
  protected readonly stepCount = 15;
  protected readonly lookEvery = 1;
  host: StagingHost;
  #isAway = false;
  #lies = 0;

  constructor(seed: number) {
    super(seed);
    const { random } = this;
    const options: HostOptions = {
      segmentBytes: random.pick([600, 2500, 2 ** 20]),
      retain: random.pick([0, 5000, 2 ** 20]),
      trunkSize: random.pick([4096, 65_536]),
      containerSize: random.pick([30_000, 2 ** 24, 2 ** 24]),
    };
    this.lines.push(JSON.stringify(options));
    this.host = this.#adopt(new StagingHost(options, random));
    this.host.isTolerant = true;
  }

  protected steps(): readonly Step[] {
    return [
      ...this.common,
      [6, 'put', () => this.#put()],
      [4, 'delete', () => this.#delete()],
      [4, 'flush', () => this.#flush()],
      [2, 'put, delete and flush', () => this.#atOnce()],
      [1, 'delete most, so that trunks are emptied', () => this.#deleteMost()],
      [1, 'a storage damages a file', () => this.#rot()],
      [1, 'check and repair', () => this.#repair()],
      [1, 'trunk store away or back', () => this.#toggleStore()],
      [1, 'trunk store lies', () => this.#lie()],
    ];
  }

  protected async anyWork(): Promise<void> {
    const works = [
      () => this.#put(),
      () => this.#flush(),
      () => this.#delete(),
      () => this.#atOnce(),
      () => this.#deleteMost(),
      () => this.#repair(),
      () => this.#rot(),
    ];
    await this.random.pick(works)();
  }

  protected crashes(): StagingCrash {
    const mode = this.random.pick(CRASH_MODES);
    const harm = this.random.pick(mode === 'killed' ? AFTER_KILL : AFTER_POWER_FAILURE);
    return { mode, harm };
  }

  protected hostAfter(crash: StagingCrash): StagingHost {
    return this.#adopt(this.host.crash(crash));
  }

  protected override harm(): void {
    const harm = this.random.pick<FileMapHarm>(['kept', 'kept', 'deleted', 'damaged']);
    this.note(`FileMap ${harm}`);
    this.host.harmFileMap(harm);
  }

  protected override async settled(undecided: Undecided): Promise<void> {
    const { host } = this;
    host.ledger.isSettled = undecided === 'none';
    if (host.staging.rebuild.isComplete) return;
    this.note('the FileMap is not complete until the trunk store is back');
    await host.check(host.disk.isFailing ? 'may fail' : 'must work');
    this.#isAway = false;
    await host.until(() => host.staging.rebuild.isComplete, true);
  }

  protected override async atTheEnd(): Promise<void> {
    this.#isAway = false;
    await this.host.flush();
  }

  async #put(): Promise<void> {
    const { host, random } = this;
    const calls = Array.from({ length: 1 + random.below(4) }, () => {
      const kind = random.below(5);
      if (kind === 0) return large(host);
      if (kind === 1) return some(host, 2 + random.below(3), `g${random.below(2)}`);
      return some(host, 1);
    });
    await Promise.all(calls.map((contents) => host.put(contents)));
  }

  async #delete(): Promise<void> {
    const kept = this.#kept();
    const count = this.random.below(4) === 0 ? kept.length : 1 + this.random.below(2);
    const chosen = new Set(Array.from({ length: count }, () => this.random.below(kept.length)));
    const keys = [...chosen].flatMap((index) => kept[index]?.key ?? []);
    await Promise.all(keys.map((key) => this.host.delete(key)));
  }

  /** Of what was put in a row, all but a few files. */
  async #deleteMost(): Promise<void> {
    const kept = this.#kept();
    const from = this.random.below(Math.max(1, kept.length));
    const chosen = kept.slice(from, from + 12).filter(() => this.random.below(5) > 0);
    await Promise.all(chosen.map(({ key }) => this.host.delete(key)));
  }

  /** Nothing may be found lost, and a repair harms nothing. */
  async #repair(): Promise<void> {
    if (this.#isAway || this.host.disk.isFailing) return;
    await this.host.repair();
  }

  /** The scrub finds it, and stores the file again from the other storage. */
  async #rot(): Promise<void> {
    if (this.#isAway || this.host.disk.isFailing) return;
    const stored = this.#kept().filter(({ places, bytes }) => places.size > 0 && bytes.length > 60);
    if (stored.length > 0) await this.host.mend(this.random.pick(stored).key);
  }

  async #flush(): Promise<void> {
    if (!this.#isAway) await this.host.flush();
  }

  async #atOnce(): Promise<void> {
    await Promise.all([this.#put(), this.#flush(), this.#delete()]);
  }

  #toggleStore(): void {
    this.#isAway = !this.#isAway;
    this.note(this.#isAway ? 'away' : 'back');
  }

  #lie(): void {
    this.#lies = 1;
  }

  #kept() {
    return this.host.ledger.in('kept', 'undeleted');
  }

  #adopt(host: StagingHost): StagingHost {
    if (process.env.TEST_TRACE) {
      host.onPoint = (what) => what.startsWith('after') && this.lines.push(`  ${what}`);
    }
    const answer = (): void => {
      if (this.#isAway) throw new Error('the trunk store is away');
    };
    host.store.beforeStore = answer;
    host.store.beforeRead = answer;
    host.store.damage = (bytes) => {
      this.#lies -= 1;
      return this.#lies >= 0 ? bytes.subarray(1) : bytes;
    };
    return host;
  }
}
