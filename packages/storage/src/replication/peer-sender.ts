import { setTimeout as sleep } from 'node:timers/promises';
import { activeTest, type ServerBrief, Status, syncedUntil } from '@stevedore/protocol';
import { asError, ConnectionError, StatusError } from '../errors.js';
import type { StorageService } from '../storage/service.js';
import type { Entry, Position } from './binlog.js';
import type { FirstCopies } from './first-copies.js';
import type { Checkpoint } from './journal.js';
import type { LogRecord } from './log-record.js';
import { type Mark, type MarkFile, NEW_MARK } from './mark-file.js';
import { isUnfinished } from './members.js';
import { PeerConnections } from './peer-connections.js';
import type { Sending } from './sending.js';

/**
 * Passes this storage's log on to one other member, from its mark to the end and on as
 * it grows. Changes of one file go in order, others side by side. What is under way is
 * bounded by the connections; all else stays in the log, however slow the member is.
 *
 *     trying --connected, little to send--> level      uploads wait for its copy
 *     trying, level --not there-->          away       uploads go on without it
 *     away --connected-->                   behind
 *     level --an upload waited too long-->  behind
 *     behind --has got the log's end-->     level
 */

export type PeerState = 'trying' | 'level' | 'behind' | 'away';

export interface PeerSenderParts {
  readonly service: StorageService;
  readonly sending: Sending;
  readonly markFile: MarkFile;
  readonly firstCopies: FirstCopies;
  /** The member as the trackers last told; undefined once it is gone for good. */
  readonly member: () => ServerBrief | undefined;
  /** Address to connect from; undefined lets the system choose. */
  readonly localAddress: string | undefined;
  /** Called whenever uploads that wait have to look again. */
  readonly progressed: () => void;
}

/** Requests to one member at a time. */
const MAX_CONNECTIONS = 8;
/** A member that lacks no more of the log than this is level. */
const LEVEL_BYTES = 64 * 1024;
/** Between two words on up to when a member has everything. */
const SYNCED_INTERVAL_MS = 1000;
const MARK_INTERVAL_MS = 1000;
/** Times that a file is tried which cannot be read here. */
const LOCAL_ATTEMPTS = 3;
/** Statuses that may pass: not a member yet, no room, a failing disk. */
const PASSING: readonly number[] = [
  Status.accessDenied,
  Status.noSpace,
  Status.ioError,
  Status.tryAgain,
];

interface Flight {
  readonly end: Position;
  readonly key: string | undefined;
  done: boolean;
  readonly settled: Promise<void>;
}

export class PeerSender {
  readonly #parts: PeerSenderParts;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #state: PeerState;
  #mark: Mark = NEW_MARK;
  /** Records under way, in the order of the log; the first is never done. */
  #flights: Flight[] = [];
  /** Behind here all has been answered. */
  #acknowledged: Position = 0;
  /** Not level again before this has been answered. */
  #levelFrom: Position = 0;
  #checkpoint: Checkpoint | undefined;
  #toldSeconds = 0;
  /** Why the session cannot go on. */
  #failure: Error | undefined;
  #repairing: Promise<void> | undefined;
  #hasNews = false;
  #resume: (() => void) | undefined;

  constructor(parts: PeerSenderParts) {
    this.#parts = parts;
    const status = parts.member()?.status;
    this.#state = status === undefined || isUnfinished(status) ? 'behind' : 'trying';
    this.#running = this.#run();
  }

  get state(): PeerState {
    return this.#state;
  }

  /** True if uploads wait for this member's copy. */
  get isLive(): boolean {
    return this.#state === 'trying' || this.#state === 'level';
  }

  /** True once the member has the change that ends there. */
  has(position: Position): boolean {
    return (
      this.#acknowledged >= position ||
      this.#flights.some(({ end, done }) => done && end === position)
    );
  }

  /** Compares with the member what came here from others, beside all else. */
  repair(): void {
    this.#mark = { ...this.#mark, repairUntil: this.#parts.service.replication.log.end };
    this.#saveMark();
    this.#wake();
  }

  /** An upload has waited too long for this member. */
  tooSlow(): void {
    this.#levelFrom = this.#parts.service.replication.log.end;
    this.#set('behind');
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    this.#mark = await this.#parts.markFile.load().catch(() => NEW_MARK);
    this.#acknowledged = this.#mark.position;
    let failed = false;
    while (!signal.aborted) {
      try {
        await this.#session(() => {
          failed = false;
        });
      } catch (error) {
        if (!failed && !signal.aborted) this.#report(error);
        failed = true;
      }
      this.#set('away');
      await this.#sleep();
    }
    await this.#parts.markFile.save(this.#mark);
  }

  async #session(connected: () => void): Promise<void> {
    const { service, member, localAddress, firstCopies } = this.#parts;
    const { settings, replication } = service;
    const peer = member();
    const ownId = replication.members.ownId;
    if (!peer || ownId === undefined) throw new Error('no tracker has told of the member');
    this.#failure = undefined;
    const connections = await PeerConnections.open(
      {
        host: peer.address,
        port: peer.port,
        ...(localAddress === undefined ? {} : { localAddress }),
        timeoutMs: settings.limits.requestTimeoutMs,
        access: settings.access,
        ownId,
        ownInstance: replication.instance,
        maxConnections: MAX_CONNECTIONS,
      },
      this.#stop.signal,
      () => this.#wake(),
    );
    const off = replication.log.onGrown(() => this.#wake());
    try {
      connected();
      const asked = await firstCopies.of(peer);
      this.#begin(connections.instance ?? '', asked?.seconds);
      if (asked?.isSource) await firstCopies.begun(peer);
      await this.#pass(connections);
    } finally {
      off();
      connections.close();
      await Promise.all(this.#flights.map(({ settled }) => settled));
      await this.#repairing;
      this.#repairing = undefined;
      this.#flights = [];
      this.#saveMark();
    }
  }

  /** Whether the mark still holds: a member that has lost everything begins anew. */
  #begin(instance: string, asked: number | undefined): void {
    const { log } = this.#parts.service.replication;
    const lost = instance !== this.#mark.instance && this.#mark.position > 0;
    const newCopy = asked !== undefined && asked !== this.#mark.firstCopySeconds;
    // A log that is shorter than the mark is another log.
    if (lost || newCopy || this.#mark.position > log.end) {
      const copy = { everythingUntil: log.end, firstCopySeconds: asked ?? 0 };
      this.#mark = { ...NEW_MARK, ...(asked === undefined ? {} : copy) };
    }
    this.#mark = { ...this.#mark, instance };
    this.#acknowledged = this.#mark.position;
    this.#checkpoint = undefined;
    this.#toldSeconds = 0;
    const backlog = log.distance(this.#acknowledged, log.end);
    if (this.#state !== 'trying' || backlog > LEVEL_BYTES) this.#set('behind');
  }

  /** Sends what there is, and what comes, until something fails. */
  async #pass(connections: PeerConnections): Promise<void> {
    const { replication, settings } = this.#parts.service;
    const { log } = replication;
    const beginning = log.end;
    let read = this.#mark.position;
    let savedAt = performance.now();
    let heardAt = savedAt;
    let toldAt = 0;
    while (!this.#stop.signal.aborted) {
      this.#check(connections);
      const { entries, next, damaged } = await log.read(read);
      if (damaged > 0) this.#report(new Error(`${damaged} damaged lines in the log`));
      for (const entry of entries) {
        await this.#launch(connections, entry, entry.end <= beginning);
      }
      const more = next !== read;
      read = next;
      if (this.#flights.length === 0) this.#acknowledged = Math.max(this.#acknowledged, read);
      this.#settle();
      const now = performance.now();
      if (now - savedAt >= MARK_INTERVAL_MS) {
        savedAt = now;
        this.#saveMark();
      }
      this.#repairing ??= this.#repairIfNeeded(connections);
      // A log that never stops growing must not put this off.
      if (now - toldAt >= SYNCED_INTERVAL_MS) {
        toldAt = now;
        if (await this.#tellSynced(connections)) heardAt = now;
        if (!(await this.#firstCopy())) return;
      }
      if (more) continue;
      if (now - heardAt >= settings.beatIntervalMs) {
        heardAt = now;
        await connections.use((client) => client.ask(activeTest, undefined));
      }
      await this.#news(SYNCED_INTERVAL_MS);
    }
  }

  /** Tells the trackers of a first copy that is whole; false if a new one is to begin. */
  async #firstCopy(): Promise<boolean> {
    const { member, firstCopies } = this.#parts;
    const peer = member();
    if (!peer || !isUnfinished(peer.status)) return true;
    const asked = await firstCopies.of(peer);
    if (asked && asked.seconds !== this.#mark.firstCopySeconds) return false;
    const isWhole = this.#acknowledged >= this.#mark.everythingUntil;
    if (asked?.isSource && isWhole) await firstCopies.ended(peer);
    return true;
  }

  /** Sends the entry once nothing before it is in its way. */
  async #launch(connections: PeerConnections, { record, end }: Entry, again: boolean) {
    if (!this.#concerns(record, end)) {
      this.#add({ end, key: undefined, done: true, settled: Promise.resolve() });
      return;
    }
    const key = this.#parts.sending.keyOf(record);
    while (this.#isInTheWay(key)) {
      await this.#news(SYNCED_INTERVAL_MS);
      this.#check(connections);
    }
    const flight: Flight = {
      end,
      key,
      done: false,
      settled: this.#fly(connections, record, again).then(
        () => {
          flight.done = true;
          this.#settle();
          this.#wake();
        },
        (error: unknown) => {
          this.#failure ??= asError(error);
          this.#wake();
        },
      ),
    };
    this.#add(flight);
  }

  /** True if a change of this file must wait; one without a key waits for all, and all for it. */
  #isInTheWay(key: string | undefined): boolean {
    const under = this.#flights.filter(({ done }) => !done);
    if (under.length >= MAX_CONNECTIONS) return true;
    return under.some((each) => key === undefined || each.key === undefined || each.key === key);
  }

  async #fly(connections: PeerConnections, record: LogRecord, again: boolean): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await connections.use((peer) => this.#parts.sending.send(record, peer, again));
        return;
      } catch (error) {
        if (error instanceof ConnectionError || this.#stop.signal.aborted) throw error;
        const refused = error instanceof StatusError;
        if (refused && PASSING.includes(error.status)) throw error;
        if (!refused && attempt < LOCAL_ATTEMPTS) {
          await this.#sleep();
          continue;
        }
        // It will not go another time either, and all that follows matters more.
        if (this.#mark.refused === 0) this.#report(error);
        this.#mark = { ...this.#mark, refused: this.#mark.refused + 1 };
        return;
      }
    }
  }

  /** Undefined if there is nothing to be repaired. */
  #repairIfNeeded(connections: PeerConnections): Promise<void> | undefined {
    const until = this.#mark.repairUntil;
    if (until === 0) return undefined;
    return this.#repair(connections, until).then(
      () => {
        this.#repairing = undefined;
        // Another one may have been asked for meanwhile.
        const left = this.#mark.repairUntil === until ? 0 : this.#mark.repairUntil;
        this.#mark = { ...this.#mark, repairUntil: left };
        this.#wake();
      },
      (error: unknown) => {
        this.#failure ??= asError(error);
        this.#wake();
      },
    );
  }

  /** One record after the other, so that uploads do not wait behind them. */
  async #repair(connections: PeerConnections, until: Position): Promise<void> {
    const { log } = this.#parts.service.replication;
    for (let read = 0; read < until && !this.#stop.signal.aborted; ) {
      const { entries, next } = await log.read(read);
      if (next === read) return;
      read = next;
      for (const { record } of entries) {
        if (record.own) continue;
        const { operation } = record;
        const isPart = operation === 'A' || operation === 'M' || operation === 'T';
        // Of another's changes only what came of them counts.
        await this.#fly(connections, isPart ? { ...record, operation: 'U' } : record, true);
      }
    }
  }

  /** Throws what has gone wrong meanwhile. */
  #check(connections: PeerConnections): void {
    if (this.#failure) throw this.#failure;
    if (connections.hasEnded || this.#stop.signal.aborted) {
      throw new ConnectionError('ERR_CONNECTION_LOST', 'the connection has ended');
    }
  }

  #wake(): void {
    this.#hasNews = true;
    this.#resume?.();
  }

  /** Waits until something has happened since it last did, or so long. */
  async #news(withinMs: number): Promise<void> {
    if (!this.#hasNews) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, withinMs);
        this.#resume = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#resume = undefined;
    }
    this.#hasNews = false;
  }

  async #sleep(): Promise<void> {
    const { signal } = this.#stop;
    const { reconnectDelayMs } = this.#parts.service.settings;
    await sleep(reconnectDelayMs, undefined, { signal }).catch(() => {});
  }

  /** Own changes, and in a first copy what others changed as well. */
  #concerns({ own, operation }: LogRecord, end: Position): boolean {
    if (own) return true;
    const wanted = operation !== 'A' && operation !== 'M' && operation !== 'T';
    return wanted && end <= this.#mark.everythingUntil;
  }

  #add(flight: Flight): void {
    this.#flights.push(flight);
    if (flight.done) this.#settle();
  }

  /** Moves what has been answered on, and tells those who wait. */
  #settle(): void {
    let count = 0;
    while (this.#flights[count]?.done) this.#acknowledged = this.#flights[count++]!.end;
    this.#flights.splice(0, count);
    const { log } = this.#parts.service.replication;
    const lacks = log.distance(this.#acknowledged, log.end);
    const isLevel = lacks <= LEVEL_BYTES && this.#acknowledged >= this.#levelFrom;
    const isComplete = this.#acknowledged >= this.#mark.everythingUntil;
    if (isLevel && isComplete && this.#state !== 'away') this.#set('level');
    this.#parts.progressed();
  }

  /** True if there was something to tell. */
  async #tellSynced(connections: PeerConnections): Promise<boolean> {
    const { replication } = this.#parts.service;
    const ownStatus = replication.members.ownStatus;
    // What this storage has not got back itself it cannot have passed on.
    if (ownStatus === undefined || isUnfinished(ownStatus)) return false;
    if (connections.instance === undefined || this.#mark.refused > 0) return false;
    this.#checkpoint ??= replication.journal.checkpoint();
    const { position, seconds } = this.#checkpoint;
    if (this.#acknowledged < position) return false;
    this.#checkpoint = replication.journal.checkpoint();
    if (seconds <= this.#toldSeconds) return false;
    await connections.use((peer) => peer.ask(syncedUntil, seconds));
    this.#toldSeconds = seconds;
    return true;
  }

  #saveMark(): void {
    this.#mark = { ...this.#mark, position: this.#acknowledged };
    void this.#parts.markFile.save(this.#mark);
  }

  #set(state: PeerState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#parts.progressed();
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
