import { CRASH_MODES } from '../file.js';
import { History, type Step } from '../history.js';
import type { Crash } from '../subject.js';
import { StorageHost } from './host.js';
import type { Entry, Kind } from './ledger.js';
import { LARGE_BYTES, someBytes } from './scripts.js';

/** A storage under files of each kind, and changes of them one by one and at once. */
export class StorageHistory extends History<StorageHost, Crash> {
  protected readonly stepCount = 10;
  protected readonly lookEvery = 5;
  host = new StorageHost(this.random);

  constructor(seed: number) {
    super(seed);
    this.host.isTolerant = true;
  }

  protected steps(): readonly Step[] {
    return [
      ...this.common,
      [5, 'some changes at once', () => this.anyWork()],
      [8, 'a change', () => this.#change(1)],
    ];
  }

  protected anyWork(): Promise<void> {
    return this.#change(1 + this.random.below(4));
  }

  protected crashes(): Crash {
    return { mode: this.random.pick(CRASH_MODES) };
  }

  protected hostAfter(crash: Crash): StorageHost {
    return this.host.crash(crash);
  }

  /** Changes of different files, at once. */
  async #change(count: number): Promise<void> {
    const used = new Set<number>();
    await Promise.all(Array.from({ length: count }, () => this.#anyChange(used)));
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
    this.note(String(kind));
    if (kind === 0) return host.upload(bytes());
    if (kind === 9) return host.hand(bytes());
    if (kind === 1) return host.uploadTrunk([bytes(), bytes(), bytes()]);
    if (kind === 2) return host.upload(someBytes(host, 4000), 'bin', random.below(4000));
    const appender = kind < 8 ? one('appender') : undefined;
    if (kind < 8 && !appender) return host.uploadAppender(bytes());
    if (kind <= 4) return host.append(appender!, bytes());
    const [size] = [appender?.possible[0]?.bytes?.length ?? 0];
    if (kind === 5) return host.modify(appender!, random.below(size + 1), bytes());
    if (kind === 6) return host.truncate(appender!, random.below(size * 2 + 1));
    if (kind === 7) return host.regenerate(appender!);
    const target = file();
    if (!target) return host.upload(bytes());
    if (kind === 8)
      return host.setMetadata(target, random.below(3) === 0 ? {} : { a: this.#text() });
    if (kind === 10) return host.delete(target);
    const slice = target.slices.findIndex(({ possible }) => possible.includes(true));
    if (kind === 11 && slice >= 0) return host.deleteSlice(target, slice);
    return host.uploadSlave(target, `_${this.#text()}`, bytes());
  }

  #text(): string {
    return this.random.below(2 ** 30).toString(36);
  }
}
