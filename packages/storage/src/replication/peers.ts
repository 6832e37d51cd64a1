import { Status } from '@stevedore/protocol';
import { asError, StatusError } from '../errors.js';
import { type Endpoint, isOwnAddress } from '../options.js';
import { logDirectory } from '../storage/layout.js';
import type { StorageService } from '../storage/service.js';
import type { Position } from './binlog.js';
import { FirstCopies } from './first-copies.js';
import { MarkFile } from './mark-file.js';
import { PeerSender } from './peer-sender.js';
import type { Copiers } from './replication.js';
import { Sending } from './sending.js';

/**
 * A sender for every other member of the group, and the rule by which a change is
 * answered: when all members that are alive and level have it, or so many as the
 * operator wants. No change waits longer than the write timeout for anybody.
 */

export interface PeersOptions {
  readonly service: StorageService;
  readonly trackers: readonly Endpoint[];
}

export class Peers implements Copiers {
  readonly #service: StorageService;
  readonly #sending: Sending;
  readonly #firstCopies: FirstCopies;
  readonly #localAddress: string | undefined;
  readonly #senders = new Map<string, PeerSender>();
  readonly #closing: Promise<void>[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #off: () => void;
  #closed = false;

  constructor({ service, trackers }: PeersOptions) {
    const { settings, replication } = service;
    this.#service = service;
    this.#sending = new Sending(service);
    this.#localAddress = isOwnAddress(settings.host) ? settings.host : undefined;
    this.#firstCopies = new FirstCopies({
      group: settings.group,
      trackers,
      localAddress: this.#localAddress,
      timeoutMs: settings.limits.requestTimeoutMs,
      access: settings.access,
      members: replication.members,
    });
    this.#off = replication.members.onChange(() => this.#follow());
    this.#follow();
  }

  async ready(): Promise<void> {
    const { writeCopies } = this.#service.settings;
    if (writeCopies === 'all') return;
    const live = this.#live().length + 1;
    if (live < writeCopies) {
      throw new StatusError(Status.tryAgain, `${live} of ${writeCopies} members are there`);
    }
  }

  async copied(position: Position): Promise<void> {
    const { writeCopies, writeTimeoutMs } = this.#service.settings;
    const giveUpAt = performance.now() + writeTimeoutMs;
    while (!this.#closed) {
      const lacking = this.#live().filter((sender) => !sender.has(position));
      if (writeCopies === 'all' && lacking.length === 0) return;
      const copies = [...this.#senders.values()].filter((sender) => sender.has(position)).length;
      if (writeCopies !== 'all' && copies + 1 >= writeCopies) return;
      const leftMs = giveUpAt - performance.now();
      if (leftMs <= 0) {
        for (const sender of lacking) sender.tooSlow();
        if (writeCopies === 'all') return;
      }
      if (leftMs <= 0 || lacking.length === 0) {
        throw new StatusError(Status.tryAgain, `${copies + 1} of ${writeCopies} members have it`);
      }
      await this.#progress(leftMs);
    }
    throw new StatusError(Status.tryAgain, 'the storage is closing');
  }

  repair(): void {
    for (const sender of this.#senders.values()) sender.repair();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#off();
    this.#firstCopies.close();
    this.#progressed();
    await Promise.all([...this.#senders.values()].map((sender) => sender.close()));
    await Promise.all(this.#closing);
  }

  #live(): PeerSender[] {
    return [...this.#senders.values()].filter((sender) => sender.isLive);
  }

  /** A sender for every member that the trackers tell of, and for no other. */
  #follow(): void {
    const { replication, settings, storePaths } = this.#service;
    const { members } = replication;
    if (this.#closed || members.ownId === undefined) return;
    const others = new Set(members.others.map(({ id }) => id));
    for (const [id, sender] of this.#senders) {
      if (others.has(id)) continue;
      this.#senders.delete(id);
      this.#closing.push(sender.close());
    }
    for (const id of others) {
      if (this.#senders.has(id)) continue;
      const { disk, onError } = settings;
      const directory = logDirectory(storePaths[0]!.path);
      this.#senders.set(
        id,
        new PeerSender({
          service: this.#service,
          sending: this.#sending,
          markFile: new MarkFile(disk, directory, id, (error) => onError(asError(error))),
          firstCopies: this.#firstCopies,
          member: () => members.find(id),
          localAddress: this.#localAddress,
          progressed: () => this.#progressed(),
        }),
      );
    }
    this.#progressed();
  }

  #progressed(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }

  #progress(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(wake);
        resolve();
      }, withinMs);
      const wake = (): void => {
        clearTimeout(timer);
        resolve();
      };
      this.#waiting.add(wake);
    });
  }
}
