import { setTimeout as sleep } from 'node:timers/promises';
import { activeTest, type ServerBrief, Status, syncedUntil } from '@stevedore/protocol';
import { asError, ConnectionError, StatusError } from '../errors.js';
import type { StorageService } from '../storage/service.js';
import type { Entry, Position } from './binlog.js';
import type { FirstCopies } from './first-copies.js';
import { Flights } from './flights.js';
import type { Checkpoint } from './journal.js';
import type { LogRecord } from './log-record.js';
import { type Mark, type MarkFile, NEW_MARK } from './mark-file.js';
import { isUnfinished } from './members.js';
import { OwnChanges } from './own-changes.js';
import { PeerConnections } from './peer-connections.js';
import type { PeerState } from './peer-state.js';
import { type Sending, SentFiles } from './sending.js';

/**
 * Passes this storage's log on to one other member, from its mark to the end and on as
 * it grows. Changes of one file go in order, others side by side. What is under way is
 * bounded by the connections; all else stays in the log, however slow the member is.
 *
 * A member that changes were answered without (peer-state.ts) is told so, names the files
 * that it has changed alone, is sent those as they are here, and the log; when it has
 * both, changes wait for it again. Where this storage is the one that is out, it does the
 * same the other way round before it sends anything.
 */

export interface PeerSenderParts {
  readonly service: StorageService;
  readonly sending: Sending;
  readonly markFile: MarkFile;
  readonly firstCopies: FirstCopies;
  readonly state: PeerState;
  /** The member as the trackers last told; undefined once it is gone for good. */
  readonly member: () => ServerBrief | undefined;
  /** Ids of the other members that changes are answered without. */
  readonly without: () => readonly string[];
  /** This storage gives up what it changed in this file without the member. */
  readonly yielded: (name: string) => void;
  /** Address to connect from; undefined lets the system choose. */
  readonly localAddress: string | undefined;
  /** Called whenever changes that wait have to look again. */
  readonly progressed: () => void;
}

/** Requests to one member at a time. */
const MAX_CONNECTIONS = 8;
/** A member that lacks more of the log than this is not waited for. */
const LEVEL_BYTES = 64 * 1024;
/** Between two words on up to when a member has everything. */
const SYNCED_INTERVAL_MS = 1000;
const MARK_INTERVAL_MS = 1000;
/** Between two looks at what somebody else is to do. */
const WAIT_MS = 20;
/** Times that a file is tried which cannot be read here. */
const LOCAL_ATTEMPTS = 3;
/** Statuses that may pass: not a member yet, no room, a failing disk. */
const PASSING: readonly number[] = [
  Status.accessDenied,
  Status.noSpace,
  Status.ioError,
  Status.tryAgain,
];

export class PeerSender {
  readonly #parts: PeerSenderParts;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  readonly #flights = new Flights(MAX_CONNECTIONS);
  #mark: Mark = NEW_MARK;
  #connections: PeerConnections | undefined;
  /** Of this session. */
  #sent = new SentFiles();
  /** Up to where the log has been looked at. */
  #read: Position = 0;
  /** What is before it was in the log when the session began. */
  #beginning: Position = 0;
  /** Behind here all has been answered. */
  #acknowledged: Position = 0;
  /** Not level before this has been answered. */
  #levelFrom: Position = 0;
  /** The member has been told, in this session, that it is waited for. */
  #isLevel = false;
  /** The member has been told, in this session, that it is not. */
  #isToldOut = false;
  /** It has named all that it changed alone, and these are still to be sent. */
  #hasYielded = false;
  readonly #wanted = new Set<string>();
  /** Files to be compared once this storage lacks nothing any more. */
  readonly #owed = new Set<string>();
  /** When this storage last gave up what it had changed without the member. */
  #yieldedTurn = 0;
  #checkpoint: Checkpoint | undefined;
  #toldSeconds = 0;
  /** Why the session cannot go on. */
  #failure: Error | undefined;
  #repairing: Promise<void> | undefined;
  #serving: Promise<void> | undefined;
  #hasNews = false;
  #resume: (() => void) | undefined;

  constructor(parts: PeerSenderParts) {
    this.#parts = parts;
    const status = parts.member()?.status;
    if (status === undefined || isUnfinished(status)) parts.state.leave();
    this.#running = this.#run();
  }

  get state(): PeerState {
    return this.#parts.state;
  }

  /** True once the member has the change that ends there. */
  has(position: Position): boolean {
    return this.#acknowledged >= position || this.#flights.has(position);
  }

  /** Compares with the member what came here from others, beside all else. */
  repair(): void {
    this.#mark = { ...this.#mark, repairUntil: this.#parts.service.replication.log.end };
    this.#saveMark();
    this.wake();
  }

  /** Changes are not to wait for this member any more. */
  leave(): void {
    this.#levelFrom = this.#parts.service.replication.log.end;
    this.#isLevel = false;
    this.#isToldOut = false;
    this.#hasYielded = false;
    this.state.leave();
    this.wake();
  }

  get id(): string {
    return this.#parts.member()?.id ?? '';
  }

  /** The member may have the file otherwise than it will be here. */
  owe(name: string): void {
    this.#owed.add(name);
    this.wake();
  }

  get isThere(): boolean {
    return this.#connections !== undefined;
  }

  /** The member takes this file as it is here. */
  want(name: string): void {
    this.#wanted.add(name);
    this.wake();
  }

  /** Asks the member to have another one have a file as it is there. */
  async passOn(member: string, name: string): Promise<void> {
    const lacks = await this.#connections?.say('passOn', `${member} ${name}`);
    // One that cannot is in charge no longer.
    if (lacks !== false) this.leave();
  }

  /** The member has named all of them. */
  yielded(): void {
    this.#hasYielded = true;
    this.wake();
  }

  /** True if the member answers within that time that it lacks nothing. */
  async canChange(withinMs: number): Promise<boolean> {
    const connections = this.#connections;
    if (!connections) return false;
    if (connections.instance === undefined) {
      return within(
        connections.use((peer) => peer.ask(activeTest, undefined)),
        withinMs,
      );
    }
    const asked = connections.say('lacks').then((lacks) => {
      if (lacks) throw new StatusError(Status.tryAgain, 'the member lacks changes');
    });
    return within(asked, withinMs);
  }

  /**
   * Tells the member, if it is there, that another one is out. One that is not, or does
   * not answer, is told first of all when it comes again.
   */
  async tellOut(id: string, withinMs: number): Promise<void> {
    const connections = this.#connections;
    if (connections?.instance === undefined) return;
    if (await within(connections.say('memberOut', id), withinMs)) return;
    this.#failure ??= new ConnectionError('ERR_CONNECTION_TIMEOUT', 'the member does not answer');
    this.leave();
  }

  wake(): void {
    this.#hasNews = true;
    this.#resume?.();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.wake();
    await this.#running;
    await this.state.close();
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
      if (!signal.aborted) this.leave();
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
      () => this.wake(),
    );
    const offs = [
      replication.log.onGrown(() => this.wake()),
      replication.standing.onChange(() => this.wake()),
    ];
    try {
      connected();
      const asked = await firstCopies.of(peer);
      this.#begin(connections.instance ?? '', asked?.seconds);
      this.#connections = connections;
      if (connections.instance !== undefined) await this.#greet(connections, peer.id);
      if (asked?.isSource) await firstCopies.begun(peer);
      await this.#pass(connections, peer.id);
    } finally {
      for (const off of offs) off();
      this.#connections = undefined;
      connections.close();
      await this.#flights.settled();
      await this.#repairing;
      await this.#serving;
      this.#repairing = undefined;
      this.#serving = undefined;
      this.#flights.clear();
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
    this.#read = this.#mark.position;
    this.#beginning = log.end;
    this.#levelFrom = log.end;
    this.#sent = new SentFiles();
    this.#isLevel = false;
    this.#isToldOut = false;
    this.#checkpoint = undefined;
    this.#toldSeconds = 0;
    if (log.distance(this.#acknowledged, log.end) > LEVEL_BYTES) this.state.leave();
  }

  /** Says who is out, and hears whether this storage is. */
  async #greet(connections: PeerConnections, id: string): Promise<void> {
    const { replication } = this.#parts.service;
    for (const other of this.#parts.without()) {
      if (other !== id) await connections.say('memberOut', other);
    }
    await this.#sayOut(connections);
    const { standing } = replication;
    if ((await connections.say('ask')) && !standing.isLedBy(id)) standing.ledBy(id);
  }

  /** Only who lacks nothing itself has others take its state. */
  async #sayOut(connections: PeerConnections): Promise<void> {
    const { standing } = this.#parts.service.replication;
    if (this.#isToldOut || connections.instance === undefined) return;
    if (!this.state.isOut || standing.isOut || !standing.isSettled) return;
    this.#hasYielded = false;
    this.#isToldOut = true;
    await connections.say('out');
  }

  /** Sends what there is, and what comes, until something fails. */
  async #pass(connections: PeerConnections, id: string): Promise<void> {
    const { replication, settings } = this.#parts.service;
    const { standing } = replication;
    let savedAt = performance.now();
    let heardAt = savedAt;
    let toldAt = 0;
    while (!this.#stop.signal.aborted) {
      this.#check(connections);
      await this.#sayOut(connections);
      if (standing.isLedBy(id)) await this.#yieldTo(connections, id);
      const more = await this.#step(connections);
      const { isOut } = standing;
      if (!isOut) this.#serve(connections);
      const now = performance.now();
      if (now - savedAt >= MARK_INTERVAL_MS) {
        savedAt = now;
        this.#saveMark();
      }
      if (!isOut) this.#repairing ??= this.#repairIfNeeded(connections);
      // A log that never stops growing must not put this off.
      if (now - toldAt >= SYNCED_INTERVAL_MS) {
        toldAt = now;
        if (!isOut && (await this.#tellSynced(connections))) heardAt = now;
        if (!(await this.#firstCopy())) return;
      }
      if (this.#canBeLevel(connections)) await this.#becomeLevel(connections);
      if (more) continue;
      if (now - heardAt >= settings.beatIntervalMs) {
        heardAt = now;
        await connections.use((client) => client.ask(activeTest, undefined));
      }
      await this.#news(SYNCED_INTERVAL_MS);
    }
  }

  /** Reads on in the log and sends what is there; true if there may be more. */
  async #step(connections: PeerConnections): Promise<boolean> {
    const { log } = this.#parts.service.replication;
    const { entries, next, damaged } = await log.read(this.#read);
    if (damaged > 0) this.#report(new Error(`${damaged} damaged lines in the log`));
    for (const entry of entries) await this.#launch(connections, entry);
    const more = next !== this.#read;
    this.#read = next;
    if (this.#flights.isEmpty) this.#acknowledged = Math.max(this.#acknowledged, next);
    this.#settle();
    return more;
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

  /** Names what was changed here without the member, which is to send its own state of it. */
  async #yieldTo(connections: PeerConnections, id: string): Promise<void> {
    const { standing, log } = this.#parts.service.replication;
    const turn = standing.turnOf(id);
    if (turn === this.#yieldedTurn) return;
    // No change is allowed any more; those that are being made shall be in the log.
    (await standing.pause())();
    const names = new OwnChanges(log, this.#mark.position, log.end);
    for await (const name of names) {
      await connections.say('wants', name);
      this.#parts.yielded(name);
    }
    await connections.say('yielded');
    this.#yieldedTurn = turn;
  }

  /** Sends what the member has asked for, beside all else. */
  #serve(connections: PeerConnections): void {
    for (const name of this.#owed) this.#wanted.add(name);
    this.#owed.clear();
    if (this.#wanted.size === 0 || this.#serving) return;
    this.#serving = this.#sendWanted(connections).then(
      () => {
        this.#serving = undefined;
        this.wake();
      },
      (error: unknown) => {
        this.#failure ??= asError(error);
        this.wake();
      },
    );
  }

  async #sendWanted(connections: PeerConnections): Promise<void> {
    for (const name of this.#wanted) {
      const record = { atSeconds: 0, operation: 'U', own: true, name, extra: '' } as const;
      const key = this.#parts.sending.keyOf(record);
      if (key === undefined) {
        this.#wanted.delete(name);
        continue;
      }
      let release: (() => void) | undefined;
      for (;;) {
        this.#check(connections);
        release = this.#flights.hold(key);
        if (release) break;
        await sleep(WAIT_MS);
      }
      try {
        this.#wanted.delete(name);
        await this.#fly(connections, record, 0);
      } finally {
        release();
        this.wake();
      }
    }
  }

  #canBeLevel(connections: PeerConnections): boolean {
    const { standing, log } = this.#parts.service.replication;
    if (this.#isLevel || standing.isOut || !standing.isSettled) return false;
    const isTold = this.#isToldOut && this.#hasYielded;
    if (this.state.lacks && connections.instance !== undefined && !isTold) return false;
    return (
      this.#wanted.size === 0 &&
      this.#owed.size === 0 &&
      this.#serving === undefined &&
      this.#acknowledged >= this.#levelFrom &&
      this.#acknowledged >= this.#mark.everythingUntil &&
      log.distance(this.#acknowledged, log.end) <= LEVEL_BYTES
    );
  }

  /** Has changes wait for the member again, between two of them. */
  async #becomeLevel(connections: PeerConnections): Promise<void> {
    const { replication, settings } = this.#parts.service;
    const { standing, log } = replication;
    if (!this.state.isLive) {
      const resume = await standing.pause();
      try {
        const until = log.end;
        const giveUpAt = performance.now() + settings.writeTimeoutMs;
        while (this.#acknowledged < until) {
          this.#check(connections);
          if (performance.now() > giveUpAt || standing.isOut) return;
          if (!(await this.#step(connections))) await this.#news(SYNCED_INTERVAL_MS);
        }
        this.state.back();
      } finally {
        resume();
      }
    }
    this.#isLevel = true;
    if (connections.instance !== undefined) await connections.say('level');
    await this.state.reportLevel();
  }

  /** Sends the entry once nothing before it is in its way. */
  async #launch(connections: PeerConnections, { record, end }: Entry): Promise<void> {
    if (!this.#concerns(record, end)) {
      this.#flights.pass(end);
      return;
    }
    const key = this.#parts.sending.keyOf(record);
    while (this.#flights.blocks(key)) {
      await this.#news(SYNCED_INTERVAL_MS);
      this.#check(connections);
    }
    this.#flights.add(end, key, (done) =>
      this.#fly(connections, record, end).then(
        () => {
          done();
          this.#settle();
          this.wake();
        },
        (error: unknown) => {
          this.#failure ??= asError(error);
          this.wake();
        },
      ),
    );
  }

  async #fly(connections: PeerConnections, record: LogRecord, end: Position): Promise<void> {
    const again = end <= this.#beginning;
    const about = { end, again, sent: this.#sent };
    const giveUpAt = performance.now() + this.#parts.service.settings.limits.requestTimeoutMs;
    for (let attempt = 1; ; attempt++) {
      try {
        for (;;) {
          const other = await connections.use((peer) =>
            this.#parts.sending.send(record, peer, about),
          );
          if (!other) return;
          if (other === 'nobody') {
            this.#owed.add(record.name);
            return;
          }
          if (other.id === this.id) {
            // What it has itself is what counts, and comes here.
            await other.passOn(this.#parts.service.replication.members.ownId ?? '', record.name);
            return;
          }
          if (performance.now() > giveUpAt) {
            throw new StatusError(Status.tryAgain, `${record.name} is not passed on`);
          }
          await other.passOn(this.id, record.name);
          await sleep(WAIT_MS);
          this.#check(connections);
        }
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
        this.wake();
      },
      (error: unknown) => {
        this.#failure ??= asError(error);
        this.wake();
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
        await this.#fly(connections, isPart ? { ...record, operation: 'U' } : record, 0);
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

  /** Moves what has been answered on, and tells those who wait. */
  #settle(): void {
    this.#acknowledged = Math.max(this.#acknowledged, this.#flights.settle());
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

  #report(error: unknown): void {
    const peer = this.#parts.member();
    const where = peer ? `${peer.id} (${peer.address}:${peer.port})` : 'gone';
    const { message } = asError(error);
    this.#parts.service.settings.onError(
      new Error(`Member ${where} of the group: ${message}`, { cause: error }),
    );
  }
}

/** True if it succeeds in that time. */
async function within(asked: Promise<unknown>, ms: number): Promise<boolean> {
  const stop = new AbortController();
  const answered = asked.then(
    () => true,
    () => false,
  );
  const late = sleep(ms, false, { signal: stop.signal }).catch(() => false);
  try {
    return await Promise.race([answered, late]);
  } finally {
    stop.abort();
  }
}
