import type { Answer } from './balancer.js';
import type { Operation } from './load.js';

/** Counts of the drill, by event and by kind of request. */

interface OfOperation {
  asked: number;
  /** First answers that were refusals, and those that a kill cut. */
  refused: number;
  /** Of those, while nothing was away; and cut without a kill. */
  unexplained: number;
  cut: number;
  mostTries: number;
  readonly tookMs: number[];
}

interface OfEvent {
  times: number;
  ms: number;
  refused: number;
  cut: number;
  readonly why: Map<string, number>;
}

const SETTLED_MS = 5_000;
/** Requests wait so long for a gateway that restarts. */
const RESTART_MS = 4_000;

export class DrillReport {
  readonly #operations = new Map<string, OfOperation>();
  readonly #events = new Map<string, OfEvent>();
  readonly #begunAt = performance.now();
  #event = 'the start';
  #outageUntil = 0;
  #mapAwayUntil = 0;
  notBegun = 0;
  verified = 0;
  slowRestarts = 0;
  /** Files that only a lost gateway and its partner had. */
  stagedAtLoss = 0;
  /** Files that one lost gateway alone may have had. */
  excused = 0;
  putWithoutMap = 0;

  /** Something is away, or was a moment ago: a repeated request may be refused again. */
  get outage(): boolean {
    return performance.now() < this.#outageUntil;
  }

  get isMapAway(): boolean {
    return performance.now() < this.#mapAwayUntil;
  }

  now(): string {
    return `${Math.round((performance.now() - this.#begunAt) / 1000)} s, ${this.#event}`;
  }

  async event(name: string, isOutage: boolean, run: () => Promise<void>): Promise<void> {
    const startedAt = performance.now();
    const of = this.#ofEvent(name);
    this.#event = name;
    if (isOutage) this.#outageUntil = Number.POSITIVE_INFINITY;
    if (name.includes('map')) this.#mapAwayUntil = Number.POSITIVE_INFINITY;
    await run();
    const now = performance.now();
    of.times += 1;
    of.ms += now - startedAt;
    if (isOutage) this.#outageUntil = now + SETTLED_MS;
    if (this.#mapAwayUntil > now) this.#mapAwayUntil = now + SETTLED_MS;
  }

  /** A planned restart: requests wait for it so long, and may be refused after that. */
  async restart(run: () => Promise<void>): Promise<void> {
    const timer = setTimeout(() => {
      this.slowRestarts += 1;
      this.#outageUntil = Number.POSITIVE_INFINITY;
    }, RESTART_MS);
    await run();
    clearTimeout(timer);
    if (this.outage) this.#outageUntil = performance.now() + SETTLED_MS;
  }

  answered(operation: Operation, tries: number, tookMs: number, overallMs: number): void {
    const of = this.#of(operation);
    if (tries === 1) of.asked += 1;
    of.mostTries = Math.max(of.mostTries, tries);
    of.tookMs.push(tries === 1 ? tookMs : overallMs);
  }

  /**
   * A connection ended before its answer. Where nothing was killed, a kept one was closed by a gateway
   * that stops while the request was on its way: HTTP cannot exclude that.
   */
  cut(operation: Operation, tries: number, wasKilled: boolean): void {
    if (tries > 1) return;
    const of = this.#of(operation);
    of.asked += 1;
    if (wasKilled) of.cut += 1;
    else of.unexplained += 1;
    this.#ofEvent(this.#event).cut += 1;
  }

  refused(operation: Operation, tries: number, answer: Answer, where: string): void {
    if (tries > 1) return;
    const of = this.#of(operation);
    const event = this.#ofEvent(this.#event);
    of.asked += 1;
    of.refused += 1;
    if (!this.outage && operation !== 'read of a deleted file') of.unexplained += 1;
    event.refused += 1;
    const says = answer.body
      .toString()
      .replaceAll(/[\w-]{22}/g, 'KEY')
      .slice(0, 220);
    const why = `${operation} at ${where}: ${answer.status} ${says}`;
    event.why.set(why, (event.why.get(why) ?? 0) + 1);
  }

  operations(): ReadonlyMap<string, Readonly<OfOperation>> {
    return this.#operations;
  }

  get asked(): number {
    return [...this.#operations.values()].reduce((sum, { asked }) => sum + asked, 0);
  }

  eventTimes(): Map<string, number> {
    return new Map([...this.#events].map(([name, { times }]) => [name, times]));
  }

  text(): string {
    const lines = ['event: times, mean s, refused, cut'];
    for (const [name, { times, ms, refused, cut, why }] of this.#events) {
      const mean = (ms / 1000 / Math.max(1, times)).toFixed(1);
      lines.push(`  ${name}: ${times}, ${mean}, ${refused}, ${cut}`);
      const most = [...why].sort(([, one], [, other]) => other - one).slice(0, 6);
      for (const [reason, count] of most) lines.push(`      ${count} x ${reason}`);
    }
    lines.push(
      'request: asked, refused, of these and cut while nothing was away, cut by a kill, share, most tries, p50 ms, p99 ms, longest ms',
    );
    for (const [name, { asked, refused, unexplained, cut, mostTries, tookMs }] of this
      .#operations) {
      const share = `${((100 * (refused + cut)) / asked).toFixed(3)} %`;
      const sorted = tookMs.sort((one, other) => one - other);
      const [p50, p99, last] = [0.5, 0.99, 1].map((part) =>
        Math.round(sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0),
      );
      const times = `${p50}, ${p99}, ${last}`;
      lines.push(
        `  ${name}: ${asked}, ${refused}, ${unexplained}, ${cut}, ${share}, ${mostTries}, ${times}`,
      );
    }
    lines.push(`staged at gateways that were lost: ${this.stagedAtLoss}, excused ${this.excused}`);
    lines.push(`put while the map was away: ${this.putWithoutMap}`);
    lines.push(
      `not begun: ${this.notBegun}; verified besides: ${this.verified}; restarts of over ${RESTART_MS} ms: ${this.slowRestarts}`,
    );
    return lines.join('\n');
  }

  #of(operation: Operation): OfOperation {
    const known = this.#operations.get(operation);
    if (known) return known;
    const of: OfOperation = {
      asked: 0,
      refused: 0,
      unexplained: 0,
      cut: 0,
      mostTries: 1,
      tookMs: [],
    };
    this.#operations.set(operation, of);
    return of;
  }

  #ofEvent(name: string): OfEvent {
    const known = this.#events.get(name);
    if (known) return known;
    const of: OfEvent = { times: 0, ms: 0, refused: 0, cut: 0, why: new Map() };
    this.#events.set(name, of);
    return of;
  }
}
