import { setTimeout as sleep } from 'node:timers/promises';
import { News } from '@stevedore/async';
import { ASKS_FOR_LINKS, reportServerId, type ServerBrief } from '@stevedore/protocol';
import { asError, keepSession, makeAddress, Peer } from '@stevedore/wire';
import type { StorageService } from '../service.js';
import type { Position } from './binlog.js';
import type { FirstCopies } from './first-copies.js';
import { type MarkFile, MarkKeeper } from './marks.js';
import { PeerSession } from './peer-session.js';
import type { Sending } from './sending.js';

/** How far the other members of a storage's group have its log, for who watches it. */

export interface ReplicationStatus {
  readonly members: readonly MemberStatus[];
}

export interface MemberStatus {
  readonly id: string;
  readonly isConnected: boolean;
  /** Of this storage's log, what it has not acknowledged. */
  readonly lagBytes: number;
  /** Changes that it refused. */
  readonly refused: number;
}

/**
 * Pushes this storage's log to one other member, in one session after the other
 * (peer-session.ts), as long as it is a member.
 */

export interface PeerSenderParts {
  readonly service: StorageService;
  readonly sending: Sending;
  readonly markFile: MarkFile;
  readonly firstCopies: FirstCopies;
  /** The member as the trackers last listed it; undefined once it is gone for good. */
  readonly member: () => ServerBrief | undefined;
  /** Address to connect from; undefined lets the system choose. */
  readonly localAddress: string | undefined;
  /** Called whenever the member has acknowledged more, comes or goes. */
  readonly progressed: () => void;
}

/** Requests to one member at a time. */
const MAX_CONNECTIONS = 8;

export class PeerSender {
  readonly #parts: PeerSenderParts;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  readonly #keeper: MarkKeeper;
  readonly #news = new News();
  #session: PeerSession | undefined;

  constructor(parts: PeerSenderParts) {
    this.#parts = parts;
    this.#keeper = new MarkKeeper(parts.markFile);
  }

  /** Sends until `close`. */
  start(): void {
    this.#running = this.#run();
  }

  /** True while the member is connected. */
  get isThere(): boolean {
    return this.#session !== undefined;
  }

  /** The member has all of the log up to here. */
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

  /** True once the member has the change whose record ends there. */
  has(position: Position): boolean {
    return this.acknowledged >= position || this.#session?.has(position) === true;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#news.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { reconnectDelayMs } = this.#parts.service.settings;
    await this.#keeper.load();
    await keepSession({
      signal,
      session: (serves) => this.#connected(serves),
      pause: () => sleep(reconnectDelayMs, undefined, { signal }).catch(() => {}),
      report: (error) => this.#report(error),
    });
    await this.#keeper.save();
  }

  async #connected(connected: () => void): Promise<void> {
    const { service, sending, member, localAddress, firstCopies, progressed } = this.#parts;
    const { settings, replication } = service;
    const { log, members } = replication;
    const listed = member();
    const { ownId } = members;
    const address = listed && makeAddress(listed.address, listed.port);
    if (!address || ownId === undefined) throw new Error('no tracker has listed the member');
    const { signal } = this.#stop;
    let takesLinks = false;
    const peer = await Peer.open(
      {
        ...{ address, localAddress, maxConnections: MAX_CONNECTIONS },
        timeoutMs: settings.limits.requestTimeoutMs,
        access: settings.access,
        hello: async (ask) => {
          takesLinks = await ask(reportServerId, ownId, ASKS_FOR_LINKS);
        },
      },
      signal,
    );
    const wake = (): void => this.#news.wake();
    void peer.ended.then(wake);
    const off = log.onGrown(wake);
    try {
      connected();
      const asked = await firstCopies.of(listed);
      this.#keeper.begin(listed.status, asked?.seconds, log.end);
      const session = new PeerSession({
        ...{ service, sending, firstCopies, peer, member, progressed, signal },
        maxInFlight: MAX_CONNECTIONS,
        takesLinks: () => takesLinks,
        keeper: this.#keeper,
        news: this.#news,
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
