import { serial } from '@stevedore/async';
import {
  type DeploymentMap,
  type Gateway,
  IN_USE_MS,
  isAlive,
  type Joined,
  type Joining,
  MapError,
  type StagedFiles,
} from '@stevedore/map';
import { StoreError } from '@stevedore/staging';
import { isGatewayUrl } from '../options.js';
import { dataPlace } from '../store/shared-directory.js';

/**
 * What this server knows of the others: their list, the secret that all share, and who holds whose
 * copies. The directory keeps it for a start while the map is down.
 */

/** What the directory keeps. */
export interface LastRun {
  readonly secret: string | undefined;
  readonly gateways: readonly Gateway[];
}

/** The map of the deployment, and its answer when this server joined. */
export interface DeploymentContext {
  readonly map: DeploymentMap;
  readonly joining: Joining & { readonly origin: number };
  /** An error if the map did not answer. */
  readonly joined: Joined | MapError;
  readonly lastRun: LastRun;
  readonly saveRun: (run: LastRun) => Promise<void>;
  /** False if this server wants no copies of its staged files; undefined: as before. */
  readonly hasCopies: boolean | undefined;
}

export interface GatewaysParts extends DeploymentContext {
  /** Files that are not merged yet. */
  readonly staged: () => StagedFiles;
  readonly report: (error: Error) => void;
  readonly now: () => number;
}

/** A server that is down, or cut off from the map. */
export interface SilentGateway {
  readonly origin: number;
  readonly url: string | null;
  /** At its last heartbeat. */
  readonly stagedFiles: number;
  /** Origin of the server that holds their copies. */
  readonly holder: number | undefined;
}

const MAX_SILENT = 10;
/** A heartbeat comes every ten seconds. After a longer pause, others may have been cut off, too. */
const LATE_BEAT_MS = 20_000;
/** An answer of the map about the servers is used for so long. */
const FRESH_MS = 5_000;

export class Gateways {
  readonly #parts: GatewaysParts;
  readonly #inTurn = serial();
  #joining: Promise<Joined> | undefined;
  #secret: string | undefined;
  #list: readonly Gateway[];
  #listedAt = Number.NEGATIVE_INFINITY;
  /** The map's time at 0 of `performance.now()`. */
  #mapZero: number | undefined;
  /** The map's time of the last heartbeat, and of the first since which none was late. */
  #beatAt = Number.NEGATIVE_INFINITY;
  #steadySince = Number.POSITIVE_INFINITY;
  /** URLs that were reported, by origin. */
  readonly #badUrls = new Map<number, string>();
  #saved: string;
  /** Who holds copies of this server's files; null: nobody. Every heartbeat repeats it. */
  #holder: number | null | undefined;
  /** Origins of the servers whose files this one has adopted. */
  readonly adopted = new Set<number>();

  constructor(parts: GatewaysParts) {
    const { joined, lastRun } = parts;
    this.#parts = parts;
    this.#list = this.#checked(lastRun.gateways);
    this.#secret = lastRun.secret;
    this.#saved = textOf(lastRun);
    this.#holder = parts.hasCopies === false ? null : undefined;
    this.#noteAdopted();
    if (!(joined instanceof MapError)) this.#joining = this.#remember(Promise.resolve(joined));
  }

  /** Joins the deployment, unless that is done. Rejects with `MapError`; then it can be repeated. */
  joined(): Promise<Joined> {
    const { map, joining } = this.#parts;
    this.#joining ??= this.#remember(joinDeployment(map, joining));
    return this.#joining;
  }

  get hasJoined(): boolean {
    return this.#joining !== undefined;
  }

  /** Shared by the servers of the deployment; undefined until the map has answered once. */
  get secret(): string | undefined {
    return this.#secret;
  }

  /** As last listed; empty if the map has never answered. */
  get list(): readonly Gateway[] {
    return this.#list;
  }

  get isFresh(): boolean {
    if (this.#parts.map.isListening) return this.#listedAt > Number.NEGATIVE_INFINITY;
    return performance.now() - this.#listedAt <= FRESH_MS;
  }

  find(origin: number | undefined): Gateway | undefined {
    return this.#list.find((each) => each.origin === origin);
  }

  /** The server of this origin, or the one that adopts its files. */
  responsibleFor(origin: number): Gateway | undefined {
    const gateway = this.find(origin);
    return gateway?.adoption ? this.find(gateway.adoption.by) : gateway;
  }

  /** True if the server of this origin, also one that has left, was heard of lately. */
  mayReturn(origin: number): boolean {
    const gateway = this.find(origin);
    if (!gateway || gateway.adoption) return false;
    return latest(this.#list) - gateway.seenAt < IN_USE_MS;
  }

  /** Origin of the server that knows every file of this origin: its own, or who has adopted them. */
  ownerOf(origin: number): number {
    if (this.adopted.has(origin)) return this.#parts.joining.origin;
    const { adoption } = this.find(origin) ?? {};
    return adoption?.isDone ? adoption.by : origin;
  }

  /** True if a server holds, or has held, copies of the files staged here. */
  get hasHolder(): boolean {
    return (this.#holder ?? this.find(this.#parts.joining.origin)?.holder) !== undefined;
  }

  /** Who holds the copies of the files staged for this origin, and of whose container they are. */
  copiesOf(origin: number): { readonly of: number; readonly at: Gateway } | undefined {
    const stager = this.find(this.ownerOf(origin));
    const at = this.find(stager?.holder);
    return stager && at && !at.adoption ? { of: stager.origin, at } : undefined;
  }

  /**
   * True if this server need not hold the copies of that one: it is alive and has another holder, or
   * its files are adopted.
   */
  isDoneWith(origin: number): boolean {
    const gateway = this.find(origin);
    if (!gateway) return false;
    if (gateway.adoption) return gateway.adoption.isDone;
    return isAlive(gateway, latest(this.#list)) && gateway.holder !== this.#parts.joining.origin;
  }

  /** Servers that were not heard of lately, did not leave, and are not adopted. */
  silent(): SilentGateway[] {
    const now = latest(this.#list);
    const silent = this.#list.filter(
      (each) => each.place !== '' && !each.adoption && !isAlive(each, now),
    );
    return silent.slice(0, MAX_SILENT).map(({ origin, url, staged, holder }) => ({
      ...{ origin, url, stagedFiles: staged.files, holder },
    }));
  }

  /** Workers of one directory count as one. */
  countAlive(): number {
    const now = latest(this.#list);
    const alive = this.#list.filter((each) => isAlive(each, now));
    return new Set(alive.map(({ place }) => dataPlace(place))).size;
  }

  async refresh(): Promise<void> {
    await this.joined();
    await this.#note(await this.#parts.map.gateways());
  }

  /** Also refreshes. False if the map has given this directory, or its files, to another server. */
  async heartbeat(): Promise<boolean> {
    const { map, joining, staged } = this.#parts;
    const { origin, place } = joining;
    const at = performance.now();
    const { isOurs, gateways } = await map.heartbeat(origin, place, staged(), this.#holder);
    await this.#note(gateways);
    const own = this.find(origin);
    if (own && isOurs) {
      this.#mapZero = own.seenAt - at;
      if (own.seenAt - this.#beatAt > LATE_BEAT_MS) this.#steadySince = own.seenAt;
      this.#beatAt = own.seenAt;
    }
    return isOurs;
  }

  /** The others hear whether it leaves files on its disk. */
  async leave(): Promise<void> {
    const { map, joining } = this.#parts;
    await this.heartbeat();
    await map.leave(joining.origin, joining.place);
  }

  /** For how long no heartbeat of this server has come late, by the map's clock. */
  get steadyMs(): number {
    return this.mapNow() - this.#steadySince;
  }

  async #note(gateways: readonly Gateway[]): Promise<void> {
    this.#list = this.#checked(gateways);
    this.#listedAt = performance.now();
    this.#noteAdopted();
    await this.#save().catch(this.#parts.report);
  }

  /** Unix milliseconds by the map's clock; by this server's until the map has told the time. */
  mapNow(): number {
    return this.#mapZero === undefined ? this.#parts.now() : this.#mapZero + performance.now();
  }

  /**
   * Records who holds the copies of this server's staged files, in the map and in the directory.
   * Rejects with `MapError`, and if the disk does not take it.
   */
  async recordHolder(holder: number): Promise<void> {
    const { map, joining } = this.#parts;
    const { origin, place } = joining;
    this.#holder = holder;
    if (this.find(origin)?.holder === holder) return;
    await this.joined();
    await map.recordHolder(origin, place, holder);
    await this.refresh();
    // A start while the map is down must find it, too.
    await this.#save();
    if (this.find(origin)?.holder === holder) return;
    throw new MapError('map_unavailable', `origin ${origin} could not record who holds its copies`);
  }

  /** A server with a URL that is none has no URL; the others are not concerned. */
  #checked(gateways: readonly Gateway[]): readonly Gateway[] {
    return gateways.map((gateway) => {
      const { origin, url } = gateway;
      if (url === null || isGatewayUrl(url)) return gateway;
      if (this.#badUrls.get(origin) !== url) {
        this.#badUrls.set(origin, url);
        const message = `origin ${origin} is in the map with "${url}", which is not the URL of a gateway: its staged files cannot be read here; correct its peerUrl`;
        this.#parts.report(new StoreError('invalid_option', message));
      }
      return { ...gateway, url: null };
    });
  }

  #noteAdopted(): void {
    const { origin: own } = this.#parts.joining;
    for (const { origin, adoption } of this.#list) {
      if (adoption?.isDone && adoption.by === own) this.adopted.add(origin);
    }
  }

  #remember(joining: Promise<Joined>): Promise<Joined> {
    joining.then(
      ({ secret }) => {
        this.#secret = secret;
        return this.#save().catch(this.#parts.report);
      },
      () => {
        this.#joining = undefined;
      },
    );
    return joining;
  }

  #save(): Promise<void> {
    return this.#inTurn(async () => {
      const run = { secret: this.#secret, gateways: this.#list };
      const text = textOf(run);
      if (text === this.#saved) return;
      await this.#parts.saveRun(run);
      this.#saved = text;
    });
  }
}

/** Rejects as `join` of the map, and with `url_taken` if others would ask another server instead. */
export async function joinDeployment(map: DeploymentMap, joining: Joining): Promise<Joined> {
  await map.prepare();
  const { url, place, instance } = joining;
  const [gateways, now] = url === undefined ? [[], 0] : [await map.gateways(), await map.now()];
  const other = gateways.find(
    (each) =>
      each.url === url &&
      each.instance !== instance &&
      isAlive(each, now) &&
      dataPlace(each.place) !== dataPlace(place),
  );
  if (!other) return map.join(joining);
  const message = `${url} is the peerUrl of origin ${other.origin} (${dataPlace(other.place)}), which was alive a moment ago: give each server its own`;
  throw new MapError('url_taken', message);
}

/** True for two workers of one server. */
export function isBeside(one: Gateway, other: Gateway | undefined): boolean {
  if (!other) return false;
  if (one.url !== null && one.url === other.url) return true;
  return one.place !== '' && dataPlace(one.place) === dataPlace(other.place);
}

/** The time of the map, as far as the list tells it: every server has a heartbeat. */
export function latest(gateways: readonly Gateway[]): number {
  return gateways.reduce((time, { seenAt }) => Math.max(time, seenAt), 0);
}

/** What of it is worth a write: heartbeats are not. */
function textOf({ secret, gateways }: LastRun): string {
  const now = latest(gateways);
  const worth = gateways.map((gateway) => ({
    ...{ ...gateway, staged: undefined, seenAt: isAlive(gateway, now) },
  }));
  return JSON.stringify([secret, worth]);
}
