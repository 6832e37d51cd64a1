import { setTimeout as sleep } from 'node:timers/promises';
import type { ServerBrief } from '@stevedore/protocol';
import { asError, ConnectionError } from '../errors.js';
import type { StorageService } from '../storage/service.js';
import type { Position } from './binlog.js';
import type { FirstCopies } from './first-copies.js';
import type { MarkFile } from './mark-file.js';
import { MarkKeeper } from './mark-keeper.js';
import { isUnfinished } from './members.js';
import { News } from './news.js';
import { PeerConnections } from './peer-connections.js';
import { PeerSession } from './peer-session.js';
import type { PeerState } from './peer-state.js';
import type { InCharge, Sending } from './sending.js';
import type { MemberStatus } from './status.js';
import { WantedFiles } from './wanted-files.js';

/**
 * Passes this storage's log on to one other member, in one session after the other
 * (peer-session.ts), as long as it is a member.
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
  /** Address to connect from; undefined lets the system choose. */
  readonly localAddress: string | undefined;
  /** Called whenever changes that wait have to look again. */
  readonly progressed: () => void;
}

/** Requests to one member at a time. */
const MAX_CONNECTIONS = 8;

export class PeerSender implements InCharge {
  readonly #parts: PeerSenderParts;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  readonly #keeper: MarkKeeper;
  readonly #wanted: WantedFiles;
  readonly #news = new News();
  #session: PeerSession | undefined;

  constructor(parts: PeerSenderParts) {
    this.#parts = parts;
    this.#keeper = new MarkKeeper(parts.markFile);
    this.#wanted = new WantedFiles(parts.sending);
    const status = parts.member()?.status;
    if (status === undefined || isUnfinished(status)) parts.state.leave();
    this.#running = this.#run();
  }

  get state(): PeerState {
    return this.#parts.state;
  }

  get id(): string {
    return this.#parts.member()?.id ?? '';
  }

  get isThere(): boolean {
    return this.#session !== undefined;
  }

  /** The member as it stands. */
  status(): MemberStatus {
    const { log } = this.#parts.service.replication;
    return {
      id: this.id,
      state: this.state.state,
      isConnected: this.isThere,
      lagBytes: log.distance(Math.min(this.#keeper.acknowledged, log.end), log.end),
      refused: this.#keeper.mark.refused,
    };
  }

  /** True once the member has the change that ends there. */
  has(position: Position): boolean {
    return this.#keeper.acknowledged >= position || this.#session?.has(position) === true;
  }

  /** Compares with the member what came here from others, beside all else. */
  repair(): void {
    this.#keeper.repair(this.#parts.service.replication.log.end);
    this.wake();
  }

  /** Changes are not to wait for this member any more. */
  leave(): void {
    // What has been done to bring it back still holds if nothing waits for it anyway.
    if (this.state.isLive) this.#session?.left();
    this.state.leave();
    this.wake();
  }

  /** The member takes this file as it is here. */
  want(name: string): void {
    this.#wanted.want(name);
    this.wake();
  }

  async passOn(member: string, name: string): Promise<void> {
    const lacks = await this.#session?.passOn(member, name);
    if (lacks === false) return;
    // One that cannot is in charge no longer, and not at once again: the others are to have time
    // to bring each other up to date without it.
    this.leave();
    this.#session?.postpone();
  }

  /** The member has named all that it changed alone. */
  yielded(): void {
    this.#session?.yielded();
    this.wake();
  }

  /** True if the member answers within that time that it lacks nothing. */
  async canChange(withinMs: number): Promise<boolean> {
    return (await this.#session?.canChange(withinMs)) === true;
  }

  /**
   * Tells the member, if it is there, that another one is out. One that is not, or does
   * not answer, is told first of all when it comes again.
   */
  async tellOut(id: string, withinMs: number): Promise<void> {
    const session = this.#session;
    if (!session || (await session.tellOut(id, withinMs))) return;
    session.fail(new ConnectionError('ERR_CONNECTION_TIMEOUT', 'the member does not answer'));
    this.leave();
  }

  wake(): void {
    this.#news.wake();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.wake();
    await this.#running;
    await this.state.close();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { reconnectDelayMs } = this.#parts.service.settings;
    await this.#keeper.load();
    let failed = false;
    while (!signal.aborted) {
      try {
        await this.#connected(() => {
          failed = false;
        });
      } catch (error) {
        if (!failed && !signal.aborted) this.#report(error);
        failed = true;
      }
      if (!signal.aborted) this.leave();
      await sleep(reconnectDelayMs, undefined, { signal }).catch(() => {});
    }
    await this.#keeper.save();
  }

  async #connected(connected: () => void): Promise<void> {
    const { service, member, localAddress, firstCopies, state, ...parts } = this.#parts;
    const { settings, replication } = service;
    const { log, members, standing, instance } = replication;
    const peer = member();
    const { ownId } = members;
    if (!peer || ownId === undefined) throw new Error('no tracker has told of the member');
    const { signal } = this.#stop;
    const connections = await PeerConnections.open(
      {
        host: peer.address,
        port: peer.port,
        ...(localAddress === undefined ? {} : { localAddress }),
        timeoutMs: settings.limits.requestTimeoutMs,
        access: settings.access,
        ownId,
        ownInstance: instance,
        maxConnections: MAX_CONNECTIONS,
      },
      signal,
      () => this.wake(),
    );
    const offs = [log.onGrown(() => this.wake()), standing.onChange(() => this.wake())];
    try {
      connected();
      const asked = await firstCopies.of(peer);
      this.#keeper.begin(connections.instance ?? '', asked?.seconds, log.end);
      const session = new PeerSession({
        ...parts,
        service,
        firstCopies,
        connections,
        keeper: this.#keeper,
        wanted: this.#wanted,
        state,
        member,
        inCharge: this,
        report: (error) => this.#report(error),
        news: this.#news,
        signal,
      });
      this.#session = session;
      await session.run(peer, asked?.isSource === true);
    } finally {
      for (const off of offs) off();
      this.#session = undefined;
      connections.close();
      void this.#keeper.save();
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
