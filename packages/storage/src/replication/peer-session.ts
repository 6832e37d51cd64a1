import { activeTest, type ServerBrief, Status, syncedUntil } from '@stevedore/protocol';
import { asError, ConnectionError, StatusError } from '../errors.js';
import type { StorageService } from '../storage/service.js';
import type { Position } from './binlog.js';
import { Delivery } from './delivery.js';
import type { FirstCopies } from './first-copies.js';
import type { Checkpoint } from './journal.js';
import { LogPassage } from './log-passage.js';
import type { MarkKeeper } from './mark-keeper.js';
import { isUnfinished } from './members.js';
import type { News } from './news.js';
import { OwnChanges } from './own-changes.js';
import type { PeerConnections } from './peer-connections.js';
import type { PeerState } from './peer-state.js';
import type { InCharge, Sending } from './sending.js';
import type { WantedFiles } from './wanted-files.js';
import { within } from './within.js';

/**
 * One member, from the moment that it is connected until something fails: it is told how
 * matters stand, sent the log from its mark to the end and on as that grows, and what is
 * wanted beside that. Changes of one file go in order, others side by side; what is under
 * way is bounded by the connections.
 */

export interface PeerSessionParts {
  readonly service: StorageService;
  readonly sending: Sending;
  readonly firstCopies: FirstCopies;
  readonly connections: PeerConnections;
  readonly keeper: MarkKeeper;
  readonly wanted: WantedFiles;
  readonly state: PeerState;
  /** The member as the trackers last told; undefined once it is gone for good. */
  readonly member: () => ServerBrief | undefined;
  readonly inCharge: InCharge;
  /** Ids of the other members that changes are answered without. */
  readonly without: () => readonly string[];
  /** Called whenever changes that wait have to look again. */
  readonly progressed: () => void;
  readonly report: (error: unknown) => void;
  /** Heard whenever there may be something to do. */
  readonly news: News;
  readonly signal: AbortSignal;
}

/** A member that lacks more of the log than this is not waited for. */
const LEVEL_BYTES = 64 * 1024;
/** Between two words on up to when a member has everything. */
const SYNCED_INTERVAL_MS = 1000;
const MARK_INTERVAL_MS = 1000;
/** How long a member that lacks changes of others is not waited for. */
const POSTPONE_MS = 3000;

export class PeerSession {
  readonly #parts: PeerSessionParts;
  readonly #delivery: Delivery;
  readonly #passage: LogPassage;
  /** Not level before this has been answered. */
  #levelFrom: Position;
  /** The member has been told that it is waited for. */
  #isLevel = false;
  #notLevelBeforeMs = 0;
  /** The member has been told that it is not. */
  #isToldOut = false;
  /** It has named all that it changed alone, and the log has them. */
  #hasYielded = false;
  /** When this storage last gave up what it had changed without the member. */
  #yieldedTurn = 0;
  #checkpoint: Checkpoint | undefined;
  #toldSeconds = 0;
  /** Why the session cannot go on. */
  #failure: Error | undefined;
  #repairing: Promise<void> | undefined;
  #serving: Promise<void> | undefined;

  constructor(parts: PeerSessionParts) {
    const { service, keeper, connections, sending, state, wanted, inCharge, signal } = parts;
    const { replication, settings } = service;
    const { log, members } = replication;
    this.#parts = parts;
    this.#levelFrom = log.end;
    this.#delivery = new Delivery({
      sending,
      connections,
      member: inCharge,
      ownId: members.ownId ?? '',
      beginning: log.end,
      owe: (name) => wanted.owe(name),
      refused: (error) => {
        if (keeper.refused()) parts.report(error);
      },
      check: () => this.#check(),
      timeoutMs: settings.limits.requestTimeoutMs,
      retryDelayMs: settings.reconnectDelayMs,
      signal,
    });
    this.#passage = new LogPassage({
      log,
      sending,
      delivery: this.#delivery,
      keeper,
      maxFlights: connections.max,
      news: parts.news,
      beside: (what, done) => this.#beside(what, done),
      // What is under way may wait for a member that waits for what is wanted from here.
      waiting: () => {
        this.#check();
        this.#serve();
      },
      progressed: parts.progressed,
      report: parts.report,
    });
    if (log.distance(keeper.acknowledged, log.end) > LEVEL_BYTES) state.leave();
  }

  /** True once the member has the change that ends there, which others before it may lack. */
  has(position: Position): boolean {
    return this.#passage.flights.has(position);
  }

  /** The member is not waited for any more: all begins anew, on the same connections. */
  left(): void {
    this.#levelFrom = this.#parts.service.replication.log.end;
    this.#isLevel = false;
    this.#isToldOut = false;
    this.#hasYielded = false;
  }

  /** The member lacks changes of others; it is not to be waited for again before some time. */
  postpone(): void {
    this.#notLevelBeforeMs = performance.now() + POSTPONE_MS;
  }

  /** The member has named all that it changed alone. */
  yielded(): void {
    // It does not know that it is waited for.
    if (this.#parts.state.isLive) this.#isLevel = false;
    this.#levelFrom = this.#parts.service.replication.log.end;
    this.#hasYielded = true;
  }

  fail(error: Error): void {
    this.#failure ??= error;
    this.#parts.news.wake();
  }

  /** Asks the member to have another one have a file as it is there; true if it lacks changes itself. */
  passOn(member: string, name: string): Promise<boolean> {
    return this.#parts.connections.say('passOn', `${member} ${name}`);
  }

  /** True if the member answers within that time that it lacks nothing. */
  canChange(withinMs: number): Promise<boolean> {
    const { connections } = this.#parts;
    if (connections.instance === undefined) return within(this.#activeTest(), withinMs);
    const asked = connections.say('lacks').then((lacks) => {
      if (lacks) throw new StatusError(Status.tryAgain, 'the member lacks changes');
    });
    return within(asked, withinMs);
  }

  /** True if the member has heard in that time that another one is out, or need not. */
  async tellOut(id: string, withinMs: number): Promise<boolean> {
    const { connections } = this.#parts;
    if (connections.instance === undefined) return true;
    return within(connections.say('memberOut', id), withinMs);
  }

  /** Rejects with what has failed. `isSource`: the member takes its first copy from here. */
  async run(peer: ServerBrief, isSource: boolean): Promise<void> {
    try {
      if (this.#parts.connections.instance !== undefined) await this.#greet(peer.id);
      if (isSource) await this.#parts.firstCopies.begun(peer);
      await this.#pass(peer.id);
    } finally {
      this.fail(new ConnectionError('ERR_CONNECTION_LOST', 'the session has ended'));
      this.#parts.connections.close();
      await this.#passage.flights.settled();
      await this.#repairing;
      await this.#serving;
    }
  }

  /** Says who is out, and hears whether this storage is. */
  async #greet(id: string): Promise<void> {
    const { connections, service, without } = this.#parts;
    for (const other of without()) {
      if (other !== id) await connections.say('memberOut', other);
    }
    await this.#sayOut();
    const { standing } = service.replication;
    const { returns } = standing;
    if (await connections.say('ask')) standing.heard(id, returns);
  }

  /** Only who lacks nothing itself has others take its state. */
  async #sayOut(): Promise<void> {
    const { connections, service, state } = this.#parts;
    const { standing } = service.replication;
    if (this.#isToldOut || connections.instance === undefined) return;
    if (!state.isOut || standing.isOut || !standing.isSettled) return;
    this.#hasYielded = false;
    this.#isToldOut = true;
    await connections.say('out');
  }

  /** Sends what there is, and what comes, until something fails. */
  async #pass(id: string): Promise<void> {
    const { service, keeper, news, signal } = this.#parts;
    const { replication, settings } = service;
    const { standing } = replication;
    let savedAt = performance.now();
    let heardAt = savedAt;
    let toldAt = 0;
    while (!signal.aborted) {
      this.#check();
      await this.#sayOut();
      if (standing.isLedBy(id)) await this.#yieldTo(id);
      const more = await this.#passage.step();
      const { isOut } = standing;
      this.#serve();
      const now = performance.now();
      if (now - savedAt >= MARK_INTERVAL_MS) {
        savedAt = now;
        void keeper.save();
      }
      if (!isOut) this.#repairing ??= this.#repairIfNeeded();
      // A log that never stops growing must not put this off.
      if (now - toldAt >= SYNCED_INTERVAL_MS) {
        toldAt = now;
        if (!isOut && (await this.#tellSynced())) heardAt = now;
        if (!(await this.#firstCopy())) return;
      }
      if (this.#canBeLevel()) await this.#becomeLevel();
      if (more) continue;
      if (now - heardAt >= settings.beatIntervalMs) {
        heardAt = now;
        await this.#activeTest();
      }
      await news.next(SYNCED_INTERVAL_MS);
    }
  }

  /** Tells the trackers of a first copy that is whole; false if a new one is to begin. */
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

  /** Names what was changed here without the member, which is to send its own state of it. */
  async #yieldTo(id: string): Promise<void> {
    const { connections, service, keeper } = this.#parts;
    const { standing, log } = service.replication;
    const turn = standing.turnOf(id);
    if (turn === this.#yieldedTurn) return;
    // No change is allowed any more; those that are being made shall be in the log.
    (await standing.pause())();
    const names = new OwnChanges(log, keeper.mark.position, log.end);
    for await (const name of names) await connections.say('wants', name);
    await connections.say('yielded');
    this.#yieldedTurn = turn;
  }

  /** Sends what is wanted, beside all else. */
  #serve(): void {
    const { service, wanted } = this.#parts;
    if (service.replication.standing.isOut || this.#serving || wanted.isEmpty) return;
    this.#serving = this.#beside(
      wanted.send(this.#passage.flights, this.#delivery, () => this.#check()),
      () => {
        this.#serving = undefined;
      },
    );
  }

  #canBeLevel(): boolean {
    const { service, connections, keeper, state, wanted } = this.#parts;
    const { standing, log } = service.replication;
    const { acknowledged } = keeper;
    if (this.#isLevel || standing.isOut || !standing.isSettled) return false;
    if (performance.now() < this.#notLevelBeforeMs) return false;
    const isTold = this.#isToldOut && this.#hasYielded;
    if (state.lacks && connections.instance !== undefined && !isTold) return false;
    return (
      wanted.isEmpty &&
      this.#serving === undefined &&
      acknowledged >= this.#levelFrom &&
      acknowledged >= keeper.mark.everythingUntil &&
      log.distance(acknowledged, log.end) <= LEVEL_BYTES
    );
  }

  /** Has changes wait for the member again, between two of them. */
  async #becomeLevel(): Promise<void> {
    const { service, connections, keeper, state, news } = this.#parts;
    const { replication, settings } = service;
    const { standing, log } = replication;
    if (!state.isLive) {
      const resume = await standing.pause();
      try {
        const until = log.end;
        const giveUpAt = performance.now() + settings.writeTimeoutMs;
        while (keeper.acknowledged < until) {
          this.#check();
          if (performance.now() > giveUpAt || standing.isOut) return;
          if (!(await this.#passage.step())) await news.next(SYNCED_INTERVAL_MS);
        }
        state.back();
      } finally {
        resume();
      }
    }
    this.#isLevel = true;
    // In this order, so that what the trackers tell is never older than what the member knows.
    await state.reportLevel();
    if (connections.instance !== undefined && state.isLive) await connections.say('level');
  }

  /** Undefined if there is nothing to be repaired. */
  #repairIfNeeded(): Promise<void> | undefined {
    const { keeper } = this.#parts;
    const until = keeper.mark.repairUntil;
    if (until === 0) return undefined;
    return this.#beside(this.#repair(until), () => {
      this.#repairing = undefined;
      keeper.repaired(until);
    });
  }

  /** One record after the other, so that uploads do not wait behind them. */
  async #repair(until: Position): Promise<void> {
    const { service, signal } = this.#parts;
    const { log } = service.replication;
    for (let read = 0; read < until && !signal.aborted; ) {
      const { entries, next } = await log.read(read);
      if (next === read) return;
      read = next;
      for (const { record } of entries) {
        if (record.own) continue;
        const { operation } = record;
        const isPart = operation === 'A' || operation === 'M' || operation === 'T';
        // Of another's changes only what came of them counts.
        await this.#delivery.deliver(isPart ? { ...record, operation: 'U' } : record, 0);
      }
    }
  }

  /** Something beside the log; if it fails, so does the session. It never rejects. */
  async #beside(what: Promise<void>, done: () => void): Promise<void> {
    try {
      await what;
      done();
      this.#parts.news.wake();
    } catch (error) {
      this.fail(asError(error));
    }
  }

  /** Throws what has gone wrong meanwhile. */
  #check(): void {
    if (this.#failure) throw this.#failure;
    if (this.#parts.connections.hasEnded || this.#parts.signal.aborted) {
      throw new ConnectionError('ERR_CONNECTION_LOST', 'the connection has ended');
    }
  }

  async #activeTest(): Promise<void> {
    await this.#parts.connections.use((peer) => peer.ask(activeTest, undefined));
  }

  /** True if there was something to tell. */
  async #tellSynced(): Promise<boolean> {
    const { service, connections, keeper } = this.#parts;
    const { members, journal } = service.replication;
    // What this storage has not got back itself it cannot have passed on.
    if (members.ownStatus === undefined || isUnfinished(members.ownStatus)) return false;
    if (connections.instance === undefined || keeper.mark.refused > 0) return false;
    this.#checkpoint ??= journal.checkpoint();
    const { position, seconds } = this.#checkpoint;
    if (keeper.acknowledged < position) return false;
    this.#checkpoint = journal.checkpoint();
    if (seconds <= this.#toldSeconds) return false;
    await connections.use((peer) => peer.ask(syncedUntil, seconds));
    this.#toldSeconds = seconds;
    return true;
  }
}
