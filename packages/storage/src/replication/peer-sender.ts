import { setTimeout as sleep } from 'node:timers/promises';
import { Wakeup } from '@stevedore/async';
import {
  ASKS_IF_OURS,
  activeTest,
  reportServerId,
  type ServerBrief,
  Status,
} from '@stevedore/protocol';
import {
  asError,
  ConnectionError,
  keepSession,
  makeAddress,
  Peer,
  StatusError,
} from '@stevedore/wire';
import type { StorageService } from '../service.js';
import type { Position } from './binlog.js';
import { BinlogFollower } from './binlog-follower.js';
import type { FirstCopies } from './first-copies.js';
import type { LogRecord } from './log-record.js';
import { isUnfinished } from './members.js';
import type { MarkKeeper } from './progress.js';
import { ChangedThere, type Sending, SentFiles } from './sending.js';

/**
 * Pushes this storage's binlog to one other member, from its cursor on, in one session after
 * another, until `close`.
 */

/** How far the other members are behind, for monitoring. */
export interface ReplicationStatus {
  readonly members: readonly MemberStatus[];
}

export interface MemberStatus {
  readonly id: string;
  readonly isConnected: boolean;
  /** Bytes of the binlog that it has not acknowledged. */
  readonly lagBytes: number;
  /** Number of records that it refused. */
  readonly refused: number;
}

export interface PeerSenderParts {
  readonly service: StorageService;
  readonly sending: Sending;
  readonly keeper: MarkKeeper;
  readonly firstCopies: FirstCopies;
  /** The member as the trackers last listed it; undefined once it has left for good. */
  readonly member: () => ServerBrief | undefined;
  /** Address to connect from; undefined lets the system choose. */
  readonly localAddress: string | undefined;
  /** Called when the member may have acknowledged more, connects or disconnects. */
  readonly progressed: () => void;
}

export class PeerSender {
  readonly #parts: PeerSenderParts;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  readonly #keeper: MarkKeeper;
  readonly #wakeup = new Wakeup();
  #session: PeerSession | undefined;

  constructor(parts: PeerSenderParts) {
    this.#parts = parts;
    this.#keeper = parts.keeper;
  }

  /** Sends until `close`. */
  start(): void {
    this.#running = this.#run();
  }

  /** True while the member is connected. */
  get isThere(): boolean {
    return this.#session !== undefined;
  }

  /** The member has all of the binlog up to here. */
  get acknowledged(): Position {
    return this.#keeper.acknowledged;
  }

  status(): MemberStatus {
    const { service, member } = this.#parts;
    const { log } = service.replication;
    return {
      id: member()?.id ?? '',
      isConnected: this.isThere,
      lagBytes: log.distance(Math.min(this.acknowledged, log.end), log.end),
      refused: this.#keeper.mark.refused,
    };
  }

  /** True once the member has the record that ends there. */
  has(position: Position): boolean {
    return this.acknowledged >= position || this.#session?.has(position) === true;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#wakeup.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { reconnectDelayMs } = this.#parts.service.settings;
    await this.#keeper.load();
    await keepSession({
      signal,
      session: (serves) => this.#connected(serves),
      pauseMs: () => reconnectDelayMs,
      report: (error) => this.#report(error),
    });
    await this.#keeper.save();
  }

  async #connected(connected: () => void): Promise<void> {
    const { service, member, localAddress, firstCopies, progressed } = this.#parts;
    const { settings, replication } = service;
    const { log, members } = replication;
    const listed = member();
    const { ownId } = members;
    const address = listed && makeAddress(listed.address, listed.port);
    if (!address || ownId === undefined) throw new Error('no tracker has listed the member');
    const { signal } = this.#stop;
    let isOurs = false;
    const peer = await Peer.open(
      {
        address,
        localAddress,
        maxConnections: MAX_CONNECTIONS,
        timeoutMs: settings.limits.requestTimeoutMs,
        access: settings.access,
        hello: async (ask) => {
          isOurs = await ask(reportServerId, ownId, ASKS_IF_OURS);
        },
      },
      signal,
    );
    const wake = (): void => this.#wakeup.wake();
    void peer.ended.then(wake);
    const off = log.onGrown(wake);
    try {
      connected();
      const asked = await firstCopies.of(listed);
      this.#keeper.begin(listed.status, asked?.seconds, log.end);
      const session = new PeerSession({
        ...this.#parts,
        peer,
        signal,
        isOurs: () => isOurs,
        wakeup: this.#wakeup,
        report: (error) => this.#report(error),
      });
      this.#session = session;
      progressed();
      await session.run(listed, asked?.isSource === true);
    } finally {
      off();
      this.#session = undefined;
      peer.close();
      void this.#keeper.save();
      progressed();
    }
  }

  #report(error: unknown): void {
    const peer = this.#parts.member();
    const where = peer ? `${peer.id} (${peer.address}:${peer.port})` : 'gone';
    const { message } = asError(error);
    this.#parts.service.settings.onError(
      new Error(`Member ${where} of the group: ${message}`, { cause: error }),
    );
  }
}

/**
 * One connection to a member, until something fails: sends the binlog from the cursor to its
 * end, and on as it grows.
 */

interface PeerSessionParts extends PeerSenderParts {
  readonly peer: Peer;
  /** False for a C storage. */
  readonly isOurs: () => boolean;
  readonly report: (error: unknown) => void;
  /** Woken whenever there may be something to do. */
  readonly wakeup: Wakeup;
  readonly signal: AbortSignal;
}

/** Requests in flight to one member. */
const MAX_CONNECTIONS = 16;
const LOOK_INTERVAL_MS = 1000;
/**
 * How long an acknowledgement may be lost if this process is killed. It then sends the changes again,
 * and a C storage that has deleted such a file meanwhile gets it back for good.
 */
const SAVE_INTERVAL_MS = 200;
/** Attempts to send a file that cannot be read here. */
const LOCAL_ATTEMPTS = 3;
/** Temporary failures: not a member yet, no space, a failing disk. */
const PASSING: readonly number[] = [
  Status.accessDenied,
  Status.noSpace,
  Status.ioError,
  Status.tryAgain,
];

/** Changes held back for those of the member; further ones are sent at once. */
const MAX_HELD = 1000;
/** How long they are held back, in heartbeats: a C storage looks for members at each. */
const HELD_BEATS = 3;

interface Held {
  readonly record: LogRecord;
  readonly end: Position;
  readonly dueAt: number;
}

class PeerSession {
  readonly #parts: PeerSessionParts;
  /** By name. Lost with the session: a later change of the file finds out again. */
  readonly #held = new Map<string, Held>();
  #hadUntilSeconds: number | undefined;
  readonly #follower: BinlogFollower;
  readonly #sent = new SentFiles();
  /** End of the binlog when the session began: the member may already have earlier records. */
  readonly #beginning: Position;
  /** Why the session failed. */
  #failure: Error | undefined;

  constructor(parts: PeerSessionParts) {
    const { service, keeper, sending } = parts;
    const { log } = service.replication;
    this.#parts = parts;
    this.#beginning = log.end;
    this.#follower = new BinlogFollower({
      log,
      sending,
      keeper,
      maxInFlight: MAX_CONNECTIONS,
      wakeup: parts.wakeup,
      deliver: (record, end) => this.#deliver(record, end),
      check: () => this.#check(),
      progressed: parts.progressed,
      report: parts.report,
    });
  }

  /** True once the member has the record that ends there, even if it lacks earlier ones. */
  has(position: Position): boolean {
    return this.#follower.window.has(position);
  }

  /** Rejects with the failure. `isSource`: the member takes its first copy from here. */
  async run(member: ServerBrief, isSource: boolean): Promise<void> {
    try {
      if (isSource) await this.#parts.firstCopies.begun(member);
      await this.#pass();
    } finally {
      this.#fail(new ConnectionError('connection_lost', 'the session has ended'));
      this.#parts.peer.close();
      await this.#follower.window.settled();
    }
  }

  async #pass(): Promise<void> {
    const { peer, service, keeper, wakeup, signal } = this.#parts;
    const { beatIntervalMs } = service.settings;
    let lookedAt = Number.NEGATIVE_INFINITY;
    let savedAt = lookedAt;
    let lastSentAt = performance.now();
    while (!signal.aborted) {
      this.#check();
      const hasMore = await this.#follower.step();
      const now = performance.now();
      // Do this even if the binlog never stops growing.
      if (now - savedAt >= SAVE_INTERVAL_MS && !keeper.isSaved) {
        savedAt = now;
        void keeper.save();
      }
      if (now - lookedAt >= LOOK_INTERVAL_MS) {
        lookedAt = now;
        if (!(await this.#firstCopy())) return;
        await this.#sendHeld(now);
      }
      if (hasMore) {
        lastSentAt = now;
        continue;
      }
      if (now - lastSentAt >= beatIntervalMs) {
        lastSentAt = now;
        await peer.ask(activeTest, undefined);
      }
      await wakeup.next(keeper.isSaved ? LOOK_INTERVAL_MS : SAVE_INTERVAL_MS);
    }
  }

  /** Reports a complete first copy to the trackers; false if a new one has to begin. */
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

  /** Sends what was held back for long enough, if the files are still here. */
  async #sendHeld(now: number): Promise<void> {
    for (const [name, { record, end, dueAt }] of this.#held) {
      if (dueAt > now) return;
      this.#held.delete(name);
      // Not beside another change of the same file.
      await this.#follower.window.settled();
      await this.#deliver(record, end, 0);
    }
  }

  /**
   * Until when a C storage has had all files. The log is in order of time, so it has had those
   * created before the first record of the session, except during a first copy. Ours refuse files
   * that were deleted there, and change none of another source.
   */
  #hadUntil(record: LogRecord): number {
    const { position, everythingUntil } = this.#parts.keeper.mark;
    const isCopied = position > 0 && position >= everythingUntil && !this.#parts.isOurs();
    this.#hadUntilSeconds ??= isCopied ? record.atSeconds - 1 : 0;
    return this.#hadUntilSeconds;
  }

  /** As `LogFollowerParts.deliver`; a failure ends the session. */
  async #deliver(
    record: LogRecord,
    end: Position,
    hadUntilSeconds = this.#hadUntil(record),
  ): Promise<boolean> {
    const { sending, peer, keeper, report, service, signal } = this.#parts;
    const about = {
      end,
      again: end <= this.#beginning,
      sent: this.#sent,
      hadUntilSeconds,
    };
    for (let attempt = 1; ; attempt++) {
      try {
        await sending.send(record, peer, about);
        return true;
      } catch (error) {
        if (error instanceof ChangedThere) {
          if (this.#hold(record, end)) return true;
          about.hadUntilSeconds = 0;
          continue;
        }
        const isAnswer = error instanceof StatusError;
        const isLost = error instanceof ConnectionError || signal.aborted;
        if (isLost || this.#failure || (isAnswer && PASSING.includes(error.status))) {
          this.#fail(asError(error));
          return false;
        }
        if (isAnswer || attempt >= LOCAL_ATTEMPTS) {
          // Another attempt would fail too, and must not hold up the records that follow.
          if (keeper.refused()) report(error);
          return true;
        }
        await sleep(service.settings.reconnectDelayMs, undefined, { signal }).catch(() => {});
      }
    }
  }

  /** False if too many are held back. */
  #hold(record: LogRecord, end: Position): boolean {
    if (this.#held.size >= MAX_HELD) return false;
    const holdMs = HELD_BEATS * this.#parts.service.settings.beatIntervalMs;
    const { dueAt = performance.now() + holdMs } = this.#held.get(record.name) ?? {};
    this.#held.set(record.name, { record, end, dueAt });
    return true;
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#parts.wakeup.wake();
  }

  /** Throws if the session has failed. */
  #check(): void {
    if (this.#failure) throw this.#failure;
    if (this.#parts.peer.hasEnded || this.#parts.signal.aborted) {
      throw new ConnectionError('connection_lost', 'the connection has ended');
    }
  }
}
