import { Gathered, GrowingPause } from '@stevedore/async';
import {
  type Claim,
  type Gateway,
  MapError,
  type MappedFile,
  mapMismatch,
  originAdopted,
  originOf,
  type StagedFiles,
  type UsageAsk,
  type UsageGrant,
} from '@stevedore/map';
import type { Outbox } from '@stevedore/staging';
import { type AdoptionParts, Adoptions } from '../adoption/adoption.js';
import { RESTART_MS } from '../holders/restarts.js';
import { type DeploymentContext, Gateways, type SilentGateway } from './gateways.js';
import { type Answer, MapCache } from './map-cache.js';
import { OwnRemovals } from './own-removals.js';
import { Publisher } from './publisher.js';
import { RemovalPoll } from './removal-poll.js';
import { away, clockTrouble, takenOver } from './troubles.js';

/**
 * This server's part in a deployment. It publishes its merges and deletions to the map, in order
 * and off the upload path. It looks up keys of other servers there, carries out deletions that
 * others request, and drops every deleted file from its caches. All of that waits while the map
 * does not answer; each server still stages, merges and serves its own files.
 */

export interface DeploymentParts extends DeploymentContext {
  readonly outbox: Outbox;
  /** Files that are not merged yet. */
  readonly staged: () => StagedFiles;
  readonly adoption: Omit<AdoptionParts, 'map' | 'origin' | 'report' | 'onDone'>;
  /** Deletes a file of this server; false if there is none. */
  readonly deleteHere: (key: Buffer) => Promise<boolean>;
  /** Drops a deleted file from caches. `file` is where its bytes were, if that is known. */
  readonly forget: (key: Buffer, file: MappedFile | undefined) => void;
  readonly report: (error: Error) => void;
  /** Unix milliseconds by this server's clock. */
  readonly now: () => number;
  /** Another server has this directory or its files: this one must stop using them. */
  readonly onRefused: (error: MapError) => void;
}

export interface DeploymentStats {
  /** Trunks and deletions that are not published yet. */
  readonly pending: number;
  /** False while the map does not answer. */
  readonly isMapAvailable: boolean;
  /** Other servers that are down, at most ten. */
  readonly silent: readonly SilentGateway[];
}

/** How often to poll the map for deletions, which reach every server within a second. */
const LOOK_INTERVAL_MS = 400;
/** Where the map tells of changes: for what it could not tell. */
const QUIET_INTERVAL_MS = 10_000;
/** However often the map tells of changes. */
const MIN_LOOK_INTERVAL_MS = 20;
/** Between rounds while the map is down. */
const RETRIES = { firstMs: 2 * LOOK_INTERVAL_MS, lastMs: 2_000 };
/** Longest time that a request of a client waits for the map. */
const MAX_WAIT_MS = 2_000;
const SEEN_INTERVAL_MS = 10_000;
/**
 * So soon a server learns that it adopts files, which are 503 until then, or that its partner left:
 * the longer, the more servers there are, since each of them reads the rows of all.
 */
const MIN_LIST_INTERVAL_MS = 1_000;
const LIST_INTERVAL_MS_PER_SERVER = 20;
const PRUNE_INTERVAL_MS = 3_600_000;
/** How long settled removals are kept, for caches of gateways that could not poll. */
const KEEP_REMOVALS_MS = 24 * 3_600_000;
/** Longest claim. After it, the mark is found only at the server that has its files. */
const MAX_CLAIM_MS = 31 * 24 * 3_600_000;
/** Rows to prune in one round, so that polling and publishing go on. */
const MAX_PRUNED = 2_000;
/** Longest time to publish in one round; deletions are polled between rounds. */
const PUBLISH_MS = 200;
/** Of deletions made while this server was stopped. */
const MAX_MISSED_DELETIONS = 20_000;
/** While a statement is under way, the next one gathers keys. */
const ANNOUNCEMENTS = { maxKeys: 500, maxCalls: 1 };

export class Deployment {
  readonly #parts: DeploymentParts;
  readonly #known: MapCache;
  readonly #publisher: Publisher;
  readonly #adoptions: Adoptions;
  readonly #announcing = new Gathered<Buffer, void>(async (keys) => {
    const removals = keys.map((key) => ({ key }));
    await this.#parts.map.remove(removals, true);
    return [];
  }, ANNOUNCEMENTS);
  readonly #gateways: Gateways;
  readonly #removals: RemovalPoll;
  readonly #ownRemovals: OwnRemovals;
  #seenAt = Number.NEGATIVE_INFINITY;
  /** When to look for deletions again, and when to list the servers. */
  #lookAt = 0;
  #listAt = 0;
  #roundEndedAt = 0;
  /** When to ask whether this server prunes the map for all, and true while it does. */
  #pruneAt = performance.now() + PRUNE_INTERVAL_MS;
  #isPruning = false;
  /** True after a failure, until a round succeeds; and since when. */
  #isAway = false;
  #failedAt = 0;
  readonly #pause = new GrowingPause(RETRIES);
  /** The error reported last, so that it is not reported every round. */
  #reported: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #isClosed = false;
  #isRefused = false;

  constructor(parts: DeploymentParts) {
    this.#parts = parts;
    this.#gateways = new Gateways(parts);
    const { map, outbox, adoption, report } = parts;
    this.#known = new MapCache({ find: (keys) => this.#asked(() => map.find(keys)) });
    this.#publisher = new Publisher(map, outbox);
    this.#ownRemovals = new OwnRemovals({
      map,
      origins: () => [this.origin, ...this.#gateways.adopted],
      deleteHere: parts.deleteHere,
      onHeard: (key) => void (this.isKnownRemoved(key) || this.noteRemoved(key)),
      onFailure: (error) => this.#fail(error),
    });
    this.#removals = new RemovalPoll({
      map,
      now: () => this.#mapTime(),
      onRemoved: (key) => {
        if (!this.isKnownRemoved(key)) this.#ownRemovals.noteRemoved(key);
        this.noteRemoved(key);
      },
    });
    map.listen((topic) => this.#hasten(topic));
    this.#adoptions = new Adoptions({
      ...{ ...adoption, map, origin: this.origin, report },
      onDone: (origin) => {
        this.#gateways.adopted.add(origin);
        this.#ownRemovals.lookSoon();
      },
    });
  }

  /** Resolves once it knows what others deleted meanwhile, or the map does not answer. */
  async start(): Promise<void> {
    const { joined } = this.#parts;
    if (joined instanceof MapError) this.#fail(joined);
    try {
      await this.#asked(() => this.#ownRemovals.hear(MAX_MISSED_DELETIONS));
    } catch (error) {
      if (!(error instanceof MapError)) throw error;
    }
    this.#next(0);
  }

  get origin(): number {
    return this.#parts.joining.origin;
  }

  /** Shared by the servers of the deployment; undefined until the map has answered once. */
  get secret(): string | undefined {
    return this.#gateways.secret;
  }

  /** Unix milliseconds by the map's clock; by this server's until the map has told the time. */
  mapNow(): number {
    return this.#gateways.mapNow();
  }

  /** What the map knows of another server's key. Rejects with `MapError`. */
  find(key: Buffer): Promise<Answer> {
    const known = this.#known.known(key);
    if (known) return Promise.resolve(known.answer);
    return this.#isAway ? Promise.reject(away()) : this.#known.ask(key);
  }

  /** What the map has answered lately. */
  known(key: Buffer): Answer {
    return this.#known.known(key)?.answer;
  }

  /** True if an earlier answer of the map said that the file is deleted. */
  isKnownRemoved(key: Buffer): boolean {
    return this.known(key) === 'removed';
  }

  /** Invalidates the cached answer, so that the next `find` asks the map. */
  forget(key: Buffer): void {
    this.#known.forget(key);
  }

  /** Deletes a file, durably; its own server, or who adopts that one's files, frees the bytes. */
  async remove(key: Buffer): Promise<void> {
    await this.#asked(() => this.#parts.map.remove([{ key }], false));
    this.noteRemoved(key);
  }

  /**
   * Resolves once the map has a deletion that was made here, so that no server serves the file even
   * if this one is lost. While the map is down, the deletion waits in the outbox alone.
   */
  async announceDeleted(key: Buffer): Promise<void> {
    if (this.isKnownRemoved(key)) return;
    // An adopted file may have been read before, by its place according to the map.
    if (originOf(key) !== this.origin) this.noteRemoved(key);
    try {
      await this.#asked(() => this.#announcing.ask(key));
    } catch (error) {
      if (!(error instanceof MapError)) throw error;
    }
  }

  /**
   * Claims an upload that may be sent to several servers; resolves with the claim in force. `over`:
   * a claim to replace. Rejects with `MapError`.
   */
  async claim(mark: Buffer, withinMs: number, over?: Claim): Promise<Claim> {
    const ms = Math.min(withinMs, MAX_CLAIM_MS);
    return this.#asked(() => this.#parts.map.claim(mark, this.origin, ms, over));
  }

  /** Counts and reserves bytes of API keys, together with the other servers. */
  async reserveUsage(day: number, asks: readonly UsageAsk[]): Promise<UsageGrant[]> {
    return this.#asked(() => this.#parts.map.reserveUsage(day, asks));
  }

  /** Number of servers that were heard of lately, this one included; workers are one. */
  liveServers(): number {
    return this.#gateways.countAlive();
  }

  /** True if this server knows every file of the origin, which is its own or adopted. */
  isAuthoritativeFor(origin: number): boolean {
    return this.ownerOf(origin) === this.origin;
  }

  /** Origin of the server that knows every file of this origin: its own, or who has adopted them. */
  ownerOf(origin: number): number {
    return this.#gateways.ownerOf(origin);
  }

  /**
   * The server of this origin, or the one that has adopted its files, as listed in the map;
   * undefined if there is none.
   */
  async gatewayOf(origin: number): Promise<Gateway | undefined> {
    const known = this.#gateways.responsibleFor(origin);
    // A stale answer is better than none, but an unknown origin must be looked up.
    if (known && this.#gateways.isFresh) return known;
    try {
      await this.#asked(() => this.#gateways.refresh());
      return this.#gateways.responsibleFor(origin);
    } catch (error) {
      if (known) return known;
      throw error;
    }
  }

  /** As `gateways`, or as listed a moment ago. */
  async gatewaysLately(): Promise<readonly Gateway[]> {
    return this.#gateways.isFresh ? this.#gateways.list : this.gateways();
  }

  /** The servers of the deployment, as last listed while the map is down. Rejects with MapError. */
  async gateways(): Promise<readonly Gateway[]> {
    try {
      await this.#asked(() => this.#gateways.refresh());
    } catch (error) {
      if (this.#gateways.list.length === 0) throw error;
    }
    return this.#gateways.list;
  }

  /** True if the server of this origin was there a moment ago, and the map would show its return. */
  mayReturn(origin: number): boolean {
    return !this.#isAway && this.#gateways.mayReturn(origin);
  }

  get isMapAvailable(): boolean {
    return !this.#isAway;
  }

  /** URL at which other servers reach this one; empty if they cannot. */
  get ownUrl(): string {
    return this.#parts.joining.url ?? '';
  }

  /** The servers of the deployment, as last listed. */
  get lastGateways(): readonly Gateway[] {
    return this.#gateways.list;
  }

  /** True if the map answers, or did a moment ago. */
  get mapMayReturn(): boolean {
    return !this.#isAway || performance.now() - this.#failedAt < RESTART_MS;
  }

  /** True if another server has, or will have, the files of that one, which must not come back. */
  isAdopted(origin: number): boolean {
    return this.#gateways.find(origin)?.adoption !== undefined;
  }

  /** Who holds the copies of the files staged for this origin, and of whose container they are. */
  copiesOf(origin: number): ReturnType<Gateways['copiesOf']> {
    return this.#gateways.copiesOf(origin);
  }

  /** Records who holds the copies of this server's staged files. Rejects with MapError. */
  recordHolder(holder: number): Promise<void> {
    return this.#gateways.recordHolder(holder);
  }

  /** False if no server has had copies of the files staged here. */
  get hasHadCopies(): boolean {
    return this.#gateways.hasHolder;
  }

  /** URL of the server that has the key's file; undefined if that is this one or has no URL. */
  async urlFor(key: string): Promise<string | undefined> {
    const origin = originOf(Buffer.from(key, 'base64url'));
    if (this.isAuthoritativeFor(origin)) return undefined;
    return (await this.gatewayOf(origin))?.url ?? undefined;
  }

  stats(): DeploymentStats {
    const { pending } = this.#publisher;
    return { pending, isMapAvailable: !this.#isAway, silent: this.#gateways.silent() };
  }

  /** Publishes part of the backlog if the map answers, then closes. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#round;
    await this.#ownRemovals.settled;
    await this.#adoptions.stop();
    try {
      // A refused server is not part of the deployment and publishes nothing.
      if (this.#gateways.hasJoined && !this.#isAway && !this.#isRefused) {
        await this.#publisher.publish(PUBLISH_MS);
        await this.#gateways.leave();
      }
    } catch {
      // The outbox keeps it for the next start.
    }
    await this.#parts.map.close();
  }

  /**
   * What the map answers in two seconds. If that is nothing, the map is down until a round succeeds,
   * and nobody else waits for it.
   */
  async #asked<Result>(ask: () => Promise<Result>): Promise<Result> {
    if (this.#isAway) throw away();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        if (!this.#isAway) this.#fail(away());
        reject(away());
      }, MAX_WAIT_MS);
    });
    try {
      return await Promise.race([this.#gateways.joined().then(ask), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  #next(delayMs: number): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#round = this.#runRound();
    }, delayMs);
    this.#timer.unref();
  }

  /** The map has told of a change. During a round, the next one begins at once. */
  #hasten(topic: string): void {
    if (topic === 'removals') this.#lookAt = 0;
    else if (topic === 'gateways') this.#listAt = 0;
    else return;
    if (!this.#timer || this.#isAway) return;
    clearTimeout(this.#timer);
    const sinceMs = performance.now() - this.#roundEndedAt;
    this.#next(Math.max(0, MIN_LOOK_INTERVAL_MS - sinceMs));
  }

  async #runRound(): Promise<void> {
    let hasMore = false;
    try {
      await this.#gateways.joined();
      const began = performance.now();
      // First: until then, this server may serve what others have deleted.
      if (this.#isAway || began >= this.#lookAt) {
        this.#lookAt = began + (this.#parts.map.isListening ? QUIET_INTERVAL_MS : 0);
        await this.#removals.poll();
      }
      await this.#ownRemovals.carryOut();
      await this.#keepUp();
      hasMore = await this.#publisher.publish(PUBLISH_MS);
    } catch (error) {
      this.#fail(error as Error);
      // It has joined late, and the map refuses it.
      if (!this.#gateways.hasJoined && error instanceof MapError && !error.retryable) {
        this.#refuse(error);
      }
      if (!this.#isRefused) this.#next(this.#pause.next());
      return;
    }
    this.#isAway = false;
    this.#pause.reset();
    this.#reported = undefined;
    this.#roundEndedAt = performance.now();
    const wasTold = this.#lookAt === 0 || this.#listAt === 0;
    const pauseMs = wasTold ? MIN_LOOK_INTERVAL_MS : LOOK_INTERVAL_MS;
    this.#next(hasMore ? 0 : pauseMs);
  }

  /** Reports an error, unless it is the same as in the round before. */
  #fail(error: Error): void {
    if (!this.#isAway) this.#failedAt = performance.now();
    this.#isAway = true;
    const what = error instanceof MapError ? error.code : error.message;
    if (what !== this.#reported) this.#parts.report(error);
    this.#reported = what;
  }

  /** The map's clock. Reports if this server's differs too much from it. */
  async #mapTime(): Promise<number> {
    const { map, now, report } = this.#parts;
    const [from, mapNow] = [now(), await map.now()];
    const trouble = clockTrouble({ from, to: now() }, mapNow);
    if (trouble) report(trouble);
    return mapNow;
  }

  async #keepUp(): Promise<void> {
    const { map } = this.#parts;
    const now = performance.now();
    const isDue = now - this.#seenAt >= SEEN_INTERVAL_MS;
    if (isDue || now >= this.#listAt) {
      const perServerMs = this.#gateways.list.length * LIST_INTERVAL_MS_PER_SERVER;
      const intervalMs = Math.max(MIN_LIST_INTERVAL_MS, perServerMs);
      this.#listAt = now + (map.isListening ? QUIET_INTERVAL_MS : intervalMs);
      if (!isDue) await this.#gateways.refresh();
      else if (!(await this.#gateways.heartbeat())) throw this.#notOurs();
      if (isDue) this.#seenAt = now;
      await this.#adoptions.begin(this.#gateways);
      await this.#dropUnneeded();
    }
    if (now >= this.#pruneAt) {
      this.#isPruning ||= await map.mayPrune(PRUNE_INTERVAL_MS);
      const before = (await this.#mapTime()) - KEEP_REMOVALS_MS;
      // The next round goes on.
      this.#isPruning &&= await map.prune(before, MAX_PRUNED);
      if (!this.#isPruning) this.#pruneAt = now + PRUNE_INTERVAL_MS;
    }
  }

  /** Drops the copies that their servers have at another one now. */
  async #dropUnneeded(): Promise<void> {
    const { held } = this.#parts.adoption;
    const unneeded = held?.origins.filter((origin) => this.#gateways.isDoneWith(origin)) ?? [];
    for (const origin of unneeded) {
      // Asks again once no connection can begin: it may be the partner again.
      await held?.drop(origin, async () => {
        await this.#gateways.refresh();
        return this.#gateways.isDoneWith(origin);
      });
    }
  }

  /** Why the map took no heartbeat. This server stops if another one has its directory or files. */
  #notOurs(): MapError {
    const known = this.#gateways.find(this.origin);
    // The database was replaced. Until this directory is filled into it, the map counts as away.
    if (!known) return mapMismatch();
    const { adoption } = known;
    const error = adoption ? originAdopted(this.origin, adoption.by) : takenOver(this.origin);
    this.#refuse(error);
    return error;
  }

  #refuse(error: MapError): void {
    this.#isRefused = true;
    this.#parts.onRefused(error);
  }

  /** Drops a deleted file from all caches of this server. */
  noteRemoved(key: Buffer): void {
    this.#parts.forget(key, this.#known.noteRemoved(key));
  }
}
