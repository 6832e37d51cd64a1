import { setTimeout as sleep } from 'node:timers/promises';
import { asError } from '../errors.js';
import type { Standing } from './standing.js';

/**
 * Whether changes wait for another member.
 *
 *     live    --it is gone, slow, or lacks too much-->     leaving   nothing is taken from it
 *     leaving --the trackers and the others know-->        out       changes go on without it
 *     leaving, out --it has everything, gave up its own--> live
 *     leaving --it has brought this storage up to date-->  live
 *
 * Of two members that lose sight of each other one alone gets from leaving to out: the
 * trackers refuse a member that is out itself. So nothing is answered at two ends.
 */

export interface PeerStateParts {
  readonly id: string;
  readonly standing: Standing;
  /** True while it is connected. */
  isThere(): boolean;
  /** Tells the trackers; false if one of them refuses. Throws if none can be reached. */
  report(says: 'out' | 'level'): Promise<boolean>;
  /** Tells the other members that this one is out; resolves when they know or are left as well. */
  tellOthers(): Promise<void>;
  /** Called whenever changes that wait have to look again. */
  progressed(): void;
  readonly retryDelayMs: number;
  readonly onError: (error: Error) => void;
}

export class PeerState {
  readonly #parts: PeerStateParts;
  readonly #stop = new AbortController();
  #state: 'live' | 'leaving' | 'out' = 'live';
  /** One word to the trackers at a time, so that they never have an older one last. */
  #reporting: Promise<void> | undefined;
  #isRefused = false;
  /** Changes have been answered without it since it was last waited for. */
  #lacks = false;
  /** Somebody waits for it in vain. */
  #isUrgent = false;

  constructor(parts: PeerStateParts, isKnownOut: boolean) {
    this.#parts = parts;
    if (!isKnownOut) return;
    this.#state = 'out';
    this.#lacks = true;
    parts.standing.fence(parts.id, true);
  }

  get state(): 'live' | 'leaving' | 'out' {
    return this.#state;
  }

  /** Changes wait for it. */
  get isLive(): boolean {
    return this.#state === 'live';
  }

  /** Changes are answered without it, and all who have to know that do. */
  get isOut(): boolean {
    return this.#state === 'out';
  }

  /** It is gone, and yet changes cannot be answered without it. */
  get isRefused(): boolean {
    return this.#state === 'leaving' && this.#isRefused;
  }

  /** It may have changed files that others have changed meanwhile. */
  get lacks(): boolean {
    return this.#lacks;
  }

  leave(): void {
    if (this.#state === 'live') this.#begin();
    else this.#isUrgent = true;
  }

  /** The trackers may have forgotten. */
  reportAgain(): void {
    if (this.#state === 'out') this.#begin();
  }

  /** Changes wait for it from now on. */
  back(): void {
    this.#state = 'live';
    this.#isRefused = false;
    this.#lacks = false;
    this.#parts.standing.fence(this.#parts.id, false);
    this.#parts.progressed();
  }

  /** It waits for this storage: where nothing has been answered without it, it is waited for too. */
  regain(): void {
    if (this.#state === 'leaving' && !this.#lacks) this.back();
  }

  /** Tells the trackers that it is level, if it is; throws if none can be reached. */
  async reportLevel(): Promise<void> {
    while (this.#reporting) await this.#reporting;
    if (this.#state !== 'live') return;
    await this.#report(async () => {
      await this.#parts.report('level');
    });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#reporting;
  }

  #begin(): void {
    const { id, standing, progressed } = this.#parts;
    this.#state = 'leaving';
    this.#isRefused = false;
    this.#isUrgent = true;
    standing.fence(id, true);
    progressed();
    if (!this.#reporting) void this.#report(() => this.#leave());
  }

  #report(words: () => Promise<void>): Promise<void> {
    const said = words();
    this.#reporting = said
      .catch(() => {})
      .finally(() => {
        this.#reporting = undefined;
        // It went, or went once more, meanwhile.
        if (this.#state === 'leaving' && !this.#stop.signal.aborted) this.#begin();
      });
    return said;
  }

  async #leave(): Promise<void> {
    const { standing, report, tellOthers, progressed, retryDelayMs, onError } = this.#parts;
    const { signal } = this.#stop;
    let mayBeKnown = false;
    while (this.#state === 'leaving' && !signal.aborted) {
      let isDone = false;
      try {
        // Where it was this storage that lagged, the other one may well be level by now, unless it
        // is known to lack something.
        const isDue = this.#isUrgent || this.#lacks || !this.#parts.isThere();
        if (standing.isOut) this.#isUrgent = false;
        const mayReport = isDue && standing.isSettled && !standing.isOut;
        if (mayReport) mayBeKnown = true;
        isDone = mayReport && (await report('out'));
        if (isDone && this.#state === 'leaving') await tellOthers();
      } catch (error) {
        isDone = false;
        if (!this.#isRefused && !signal.aborted) onError(asError(error));
      }
      if (this.#state !== 'leaving') {
        // It came back while the trackers took down that it was out, as they may have unheard.
        if (mayBeKnown) await this.#withdraw();
        return;
      }
      if (isDone) {
        this.#state = 'out';
        this.#lacks = true;
      }
      this.#isRefused = !isDone;
      progressed();
      if (!isDone) await sleep(retryDelayMs, undefined, { signal }).catch(() => {});
    }
  }

  async #withdraw(): Promise<void> {
    const { report, retryDelayMs, onError } = this.#parts;
    const { signal } = this.#stop;
    let isReported = false;
    while (this.#state === 'live' && !signal.aborted) {
      try {
        await report('level');
        return;
      } catch (error) {
        if (!isReported && !signal.aborted) onError(asError(error));
        isReported = true;
      }
      await sleep(retryDelayMs, undefined, { signal }).catch(() => {});
    }
  }
}
