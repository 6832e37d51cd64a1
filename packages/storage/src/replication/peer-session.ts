import { setTimeout as sleep } from 'node:timers/promises';
import type { News } from '@stevedore/async';
import { activeTest, type ServerBrief, Status } from '@stevedore/protocol';
import { asError, ConnectionError, type Peer, StatusError } from '@stevedore/wire';
import type { StorageService } from '../service.js';
import type { Position } from './binlog.js';
import type { FirstCopies } from './first-copies.js';
import { LogPassage } from './log-passage.js';
import type { LogRecord } from './log-record.js';
import type { MarkKeeper } from './marks.js';
import { isUnfinished } from './members.js';
import { type Sending, SentFiles } from './sending.js';

/**
 * One member, from the moment that it is connected until something fails: it is sent the
 * log from its mark to the end, and on as the log grows.
 */

export interface PeerSessionParts {
  readonly service: StorageService;
  readonly sending: Sending;
  readonly firstCopies: FirstCopies;
  readonly peer: Peer;
  /** Requests under way at a time. */
  readonly maxInFlight: number;
  /** The member can be sent links; others are sent files in their places. */
  readonly takesLinks: () => boolean;
  readonly keeper: MarkKeeper;
  /** The member as the trackers last listed it; undefined once it is gone for good. */
  readonly member: () => ServerBrief | undefined;
  /** Called whenever the member has acknowledged more. */
  readonly progressed: () => void;
  readonly report: (error: unknown) => void;
  /** Woken whenever there may be something to do. */
  readonly news: News;
  readonly signal: AbortSignal;
}

const LOOK_INTERVAL_MS = 1000;
/** Times that a file is tried which cannot be read here. */
const LOCAL_ATTEMPTS = 3;
/** Statuses that may pass: not a member yet, no room, a failing disk. */
const PASSING: readonly number[] = [
  Status.accessDenied,
  Status.noSpace,
  Status.ioError,
  Status.tryAgain,
];

export class PeerSession {
  readonly #parts: PeerSessionParts;
  readonly #passage: LogPassage;
  readonly #sent = new SentFiles();
  /** What is before it was in the log when the session began: the member may have it. */
  readonly #beginning: Position;
  /** Why the session cannot go on. */
  #failure: Error | undefined;

  constructor(parts: PeerSessionParts) {
    const { service, keeper, maxInFlight, sending } = parts;
    const { log } = service.replication;
    this.#parts = parts;
    this.#beginning = log.end;
    this.#passage = new LogPassage({
      ...{ log, sending, keeper, maxInFlight },
      news: parts.news,
      deliver: (record, end) => this.#deliver(record, end),
      check: () => this.#check(),
      progressed: parts.progressed,
      report: parts.report,
    });
  }

  /** True once the member has the change that ends there, though it may lack earlier ones. */
  has(position: Position): boolean {
    return this.#passage.window.has(position);
  }

  /** Rejects with what has failed. `isSource`: the member takes its first copy from here. */
  async run(member: ServerBrief, isSource: boolean): Promise<void> {
    try {
      if (isSource) await this.#parts.firstCopies.begun(member);
      await this.#pass();
    } finally {
      this.#fail(new ConnectionError('connection_lost', 'the session has ended'));
      this.#parts.peer.close();
      await this.#passage.window.settled();
    }
  }

  async #pass(): Promise<void> {
    const { peer, service, keeper, news, signal } = this.#parts;
    const { beatIntervalMs } = service.settings;
    let lookedAt = Number.NEGATIVE_INFINITY;
    let heardAt = performance.now();
    while (!signal.aborted) {
      this.#check();
      const hasMore = await this.#passage.step();
      const now = performance.now();
      // A log that never stops growing must not put this off.
      if (now - lookedAt >= LOOK_INTERVAL_MS) {
        lookedAt = now;
        void keeper.save();
        if (!(await this.#firstCopy())) return;
      }
      if (hasMore) {
        heardAt = now;
        continue;
      }
      if (now - heardAt >= beatIntervalMs) {
        heardAt = now;
        await peer.ask(activeTest, undefined);
      }
      await news.next(LOOK_INTERVAL_MS);
    }
  }

  /** Reports a first copy that is whole to the trackers; false if a new one is to begin. */
  async #firstCopy(): Promise<boolean> {
    const { member, firstCopies, keeper } = this.#parts;
    const peer = member();
    if (!peer || !isUnfinished(peer.status)) return true;
    const asked = await firstCopies.of(peer);
    const { firstCopySeconds, everythingUntil } = keeper.mark;
    if (asked && asked.seconds !== firstCopySeconds) return false;
    const isWhole = keeper.acknowledged >= everythingUntil;
    if (asked?.isSource && isWhole) await firstCopies.ended(peer);
    return true;
  }

  /** Never rejects: what fails ends the session. True once the member has it. */
  async #deliver(record: LogRecord, end: Position): Promise<boolean> {
    const { sending, peer, keeper, report, service, signal } = this.#parts;
    const takesLinks = this.#parts.takesLinks();
    const about = { end, again: end <= this.#beginning, sent: this.#sent, takesLinks };
    for (let attempt = 1; ; attempt++) {
      try {
        await sending.send(record, peer, about);
        return true;
      } catch (error) {
        const isAnswer = error instanceof StatusError;
        const isLost = error instanceof ConnectionError || signal.aborted;
        if (isLost || this.#failure || (isAnswer && PASSING.includes(error.status))) {
          this.#fail(asError(error));
          return false;
        }
        if (isAnswer || attempt >= LOCAL_ATTEMPTS) {
          // It will be refused another time too, and all that follows matters more.
          if (keeper.refused()) report(error);
          return true;
        }
        await sleep(service.settings.reconnectDelayMs, undefined, { signal }).catch(() => {});
      }
    }
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#parts.news.wake();
  }

  /** Throws what has gone wrong meanwhile. */
  #check(): void {
    if (this.#failure) throw this.#failure;
    if (this.#parts.peer.hasEnded || this.#parts.signal.aborted) {
      throw new ConnectionError('connection_lost', 'the connection has ended');
    }
  }
}
