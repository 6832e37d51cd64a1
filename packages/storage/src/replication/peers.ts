import {
  decodeFields,
  type FileId,
  type PeerStanding,
  type ServerBrief,
  Status,
} from '@stevedore/protocol';
import { asError, StatusError } from '../errors.js';
import { type Endpoint, isOwnAddress } from '../options.js';
import { logDirectory } from '../storage/layout.js';
import type { StorageService } from '../storage/service.js';
import type { Position } from './binlog.js';
import { ContestedFiles } from './contested-files.js';
import { FirstCopies } from './first-copies.js';
import { parseLoggedName } from './log-name.js';
import { MarkFile } from './mark-file.js';
import { PeerSender } from './peer-sender.js';
import { PeerState } from './peer-state.js';
import type { ChangeKind, Copiers } from './replication.js';
import { Sending } from './sending.js';
import { Standings } from './standings.js';
import type { ReplicationStatus } from './status.js';
import { TrackerCalls } from './tracker-calls.js';

/**
 * A sender for every other member of the group, and the rules by which changes are
 * answered. A file is changed by its source, or by the first member in the order of ids
 * where those before it are out. A change is answered when every member has it that is
 * not out, or so many as the operator wants; a member for which one has waited longer
 * than the write timeout is left behind.
 */

export interface PeersOptions {
  readonly service: StorageService;
  readonly trackers: readonly Endpoint[];
}

/** Between two looks at what the trackers have taken down. */
const RECONCILE_INTERVAL_MS = 3000;

export class Peers implements Copiers {
  readonly #service: StorageService;
  readonly #sending: Sending;
  readonly #calls: TrackerCalls;
  readonly #firstCopies: FirstCopies;
  readonly #standings: Standings;
  readonly #localAddress: string | undefined;
  readonly #senders = new Map<string, PeerSender>();
  readonly #closing: Promise<void>[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #contested: ContestedFiles;
  readonly #offs: readonly (() => void)[];
  /** Members that others, or this storage itself before it was started, go on without. */
  #outAtStart: ReadonlyMap<string, boolean> = new Map();
  #settling: Promise<void> | undefined;
  #reconciling: Promise<void> | undefined;
  readonly #reconciler: NodeJS.Timeout;
  #closed = false;

  constructor({ service, trackers }: PeersOptions) {
    const { settings, replication } = service;
    const { members, standing } = replication;
    this.#service = service;
    this.#sending = new Sending(service, (id) => this.#inCharge(id));
    this.#contested = new ContestedFiles({
      journal: replication.journal,
      concerns: (name) =>
        parseLoggedName(settings.group, name, service.storePaths.length) !== undefined,
      isPassedOn: (position) => [...this.#senders.values()].every((each) => each.has(position)),
    });
    this.#localAddress = isOwnAddress(settings.host) ? settings.host : undefined;
    this.#calls = new TrackerCalls({
      trackers,
      localAddress: this.#localAddress,
      timeoutMs: settings.limits.requestTimeoutMs,
      access: settings.access,
    });
    const { group } = settings;
    this.#firstCopies = new FirstCopies({ group, calls: this.#calls, members });
    this.#standings = new Standings({ group, calls: this.#calls, members });
    this.#offs = [
      members.onChange(() => this.#follow()),
      standing.onChange(() => this.#progressed()),
    ];
    if (trackers.length === 0) standing.settle([]);
    this.#reconciler = setInterval(() => {
      this.#reconciling ??= this.#reconcile().finally(() => {
        this.#reconciling = undefined;
      });
    }, RECONCILE_INTERVAL_MS);
    this.#reconciler.unref();
    this.#follow();
  }

  async ready(kind: ChangeKind): Promise<number> {
    const { settings, replication } = this.#service;
    const { standing } = replication;
    const { writeCopies, writeTimeoutMs } = settings;
    const giveUpAt = performance.now() + writeTimeoutMs;
    for (;;) {
      if (kind !== 'new' && standing.isOut) {
        throw new StatusError(Status.tryAgain, 'this storage lacks changes itself');
      }
      if (standing.isSettled && (await this.#mayChange(kind))) break;
      const leftMs = giveUpAt - performance.now();
      if (leftMs <= 0 || this.#closed) {
        throw new StatusError(Status.tryAgain, 'nobody knows who may change files now');
      }
      await this.#progress(leftMs);
    }
    if (writeCopies !== 'all') {
      const live = [...this.#senders.values()].filter(({ state }) => state.isLive).length + 1;
      if (live < writeCopies) {
        throw new StatusError(Status.tryAgain, `${live} of ${writeCopies} members are there`);
      }
    }
    return standing.turn;
  }

  isAllowed(kind: ChangeKind, turn: number): boolean {
    const { standing } = this.#service.replication;
    if (kind === 'new') return true;
    if (turn !== standing.turn || standing.isOut) return false;
    return kind === 'gone' || this.#before(kind.changed).every(({ state }) => state.isOut);
  }

  async copied(position: Position, kind: ChangeKind, turn: number): Promise<void> {
    const { settings, replication } = this.#service;
    const { writeCopies, writeTimeoutMs } = settings;
    const { standing } = replication;
    const slowAt = performance.now() + writeTimeoutMs;
    // A member that is left behind then is to be known as such.
    const giveUpAt = slowAt + settings.limits.requestTimeoutMs;
    while (!this.#closed) {
      if (kind !== 'new' && turn !== standing.turn) {
        throw new StatusError(Status.tryAgain, 'others went on without this storage');
      }
      const senders = [...this.#senders.values()];
      const isIn = (sender: PeerSender): boolean => !sender.state.isOut;
      const lacking = senders.filter((sender) => isIn(sender) && !sender.has(position));
      // A new file is answered even if nobody can be told that others lack it.
      const waited = lacking.filter(
        ({ state, isThere }) =>
          kind !== 'new' || !state.isRefused || (isThere && performance.now() < slowAt),
      );
      const copies = senders.filter((sender) => sender.has(position)).length + 1;
      if (writeCopies === 'all' ? waited.length === 0 : copies >= writeCopies) return;
      const now = performance.now();
      if (now >= slowAt) for (const sender of lacking) sender.leave();
      const isHopeless = waited.some(({ state }) => state.isRefused) || waited.length === 0;
      const isLate = now >= (writeCopies === 'all' ? giveUpAt : slowAt);
      if (isLate || (now >= slowAt && isHopeless)) {
        throw new StatusError(
          Status.tryAgain,
          `${copies} of ${senders.length + 1} members have it`,
        );
      }
      await this.#progress((now >= slowAt ? giveUpAt : slowAt) - now);
    }
    throw new StatusError(Status.tryAgain, 'the storage is closing');
  }

  status(): ReplicationStatus {
    const { standing } = this.#service.replication;
    const members = [...this.#senders.values()].map((sender) => sender.status());
    return { outFor: standing.leaders, members };
  }

  async said(id: string, { word, name }: PeerStanding): Promise<boolean> {
    const { standing } = this.#service.replication;
    const sender = this.#senders.get(id);
    switch (word) {
      case 'out':
        standing.ledBy(id);
        break;
      case 'level':
        standing.levelWith(id);
        sender?.state.regain();
        break;
      case 'wants':
        await this.#contested.note(name);
        break;
      case 'yielded':
        sender?.yielded();
        break;
      case 'memberOut':
        this.#senders.get(name)?.leave();
        break;
      case 'passOn': {
        const [member = '', file = ''] = name.split(' ');
        this.#senders.get(member)?.want(file);
        return standing.isOut || !standing.isSettled;
      }
      case 'lacks':
        return standing.isOut || !standing.isSettled;
      case 'ask':
        break;
    }
    return sender?.state.isOut === true && !standing.isOut;
  }

  rejoined(): void {
    for (const { state } of this.#senders.values()) state.reportAgain();
  }

  repair(): void {
    for (const sender of this.#senders.values()) sender.repair();
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const off of this.#offs) off();
    clearInterval(this.#reconciler);
    this.#calls.close();
    this.#progressed();
    await this.#settling;
    await this.#reconciling;
    await Promise.all([...this.#senders.values()].map((sender) => sender.close()));
    await Promise.all(this.#closing);
  }

  /** Whether all who would come first for this file are out; status 11 if one of them is there. */
  async #mayChange(kind: ChangeKind): Promise<boolean> {
    if (typeof kind === 'string') return true;
    const before = this.#before(kind.changed);
    if (before.every(({ state }) => state.isOut)) return true;
    const { writeTimeoutMs } = this.#service.settings;
    const live = before.filter(({ state }) => state.isLive);
    const answers = await Promise.all(
      live.map(async (sender) => {
        const canChange = await sender.canChange(writeTimeoutMs);
        if (!canChange) sender.leave();
        return canChange;
      }),
    );
    if (answers.includes(true)) {
      throw new StatusError(Status.tryAgain, 'another member changes this file');
    }
    return before.every(({ state }) => state.isOut);
  }

  /** Who replaces other states of the file; undefined: this storage does. */
  #inCharge(id: FileId): PeerSender | 'nobody' | undefined {
    if (this.#service.replication.standing.isOut) return 'nobody';
    return this.#before(id).find(({ state }) => !state.isOut);
  }

  /** Senders of those who change the file rather than this storage, the first one first. */
  #before({ base }: FileId): PeerSender[] {
    const { identity, replication } = this.#service;
    const { source } = decodeFields(base);
    const { ownId = '', others } = replication.members;
    if (identity.isSource(source)) return [];
    const isSource = ({ id, address }: ServerBrief): boolean => id === source || address === source;
    return others
      .filter((each) => !identity.isReadOnly(each.id) && (isSource(each) || each.id < ownId))
      .sort((one, other) => Number(isSource(other)) - Number(isSource(one)) || order(one, other))
      .flatMap(({ id }) => this.#senders.get(id) ?? []);
  }

  /** A sender for every member that the trackers tell of, and for no other. */
  #follow(): void {
    const { members, standing } = this.#service.replication;
    if (this.#closed || members.ownId === undefined) return;
    if (!standing.isSettled) {
      this.#settling ??= this.#settle();
      return;
    }
    const others = new Set(members.others.map(({ id }) => id));
    let isGone = false;
    for (const [id, sender] of this.#senders) {
      if (others.has(id)) continue;
      this.#senders.delete(id);
      this.#closing.push(sender.close());
      standing.levelWith(id);
      isGone = true;
    }
    // What only the one that is gone would have passed on, those that have it do.
    if (isGone) this.repair();
    for (const id of others) {
      if (!this.#senders.has(id)) this.#senders.set(id, this.#sender(id));
    }
    this.#progressed();
  }

  /** Asks the trackers who is out, until one has told; then begins. */
  async #settle(): Promise<void> {
    const { replication, settings } = this.#service;
    while (!this.#closed) {
      const pairs = await this.#standings.pairs().catch(() => undefined);
      if (pairs) {
        const ownId = replication.members.ownId!;
        const out = new Map<string, boolean>();
        for (const { memberId, byId } of pairs) {
          if (memberId !== ownId) out.set(memberId, byId === ownId || out.get(memberId) === true);
        }
        this.#outAtStart = out;
        replication.standing.settle(
          pairs.filter(({ memberId }) => memberId === ownId).map(({ byId }) => byId),
        );
        break;
      }
      await this.#progress(settings.reconnectDelayMs);
    }
    this.#follow();
  }

  #sender(id: string): PeerSender {
    const { replication, settings, storePaths } = this.#service;
    const { disk, onError, limits, reconnectDelayMs } = settings;
    const { members, standing } = replication;
    const directory = logDirectory(storePaths[0]!.path);
    const known = this.#outAtStart.get(id);
    const state = new PeerState(
      {
        id,
        standing,
        isThere: () => this.#senders.get(id)?.isThere === true,
        report: (says) => this.#report(id, says),
        tellOthers: () => this.#tellOthers(id, limits.requestTimeoutMs),
        progressed: () => this.#progressed(),
        retryDelayMs: reconnectDelayMs,
        onError,
      },
      known === true,
    );
    // Others go on without it, and so has this storage to.
    if (known === false) state.leave();
    return new PeerSender({
      service: this.#service,
      sending: this.#sending,
      markFile: new MarkFile(disk, directory, id, (error) => onError(asError(error))),
      firstCopies: this.#firstCopies,
      state,
      member: () => members.find(id),
      without: () => this.#without(),
      localAddress: this.#localAddress,
      progressed: () => this.#progressed(),
    });
  }

  async #report(id: string, says: 'out' | 'level'): Promise<boolean> {
    const isTaken = await this.#standings.report(id, says);
    if (isTaken) return true;
    // This storage is out itself: for one that could not tell it so, being out as well.
    await this.#ownPairs();
    return false;
  }

  /** Members that the trackers take to be out for this storage; learns for whom this one is. */
  async #ownPairs(): Promise<readonly string[]> {
    const { standing, members } = this.#service.replication;
    const { returns } = standing;
    const pairs = await this.#standings.pairs();
    for (const { memberId, byId } of pairs) {
      if (memberId === members.ownId) standing.heard(byId, returns);
    }
    return pairs.flatMap(({ memberId, byId }) => (byId === members.ownId ? [memberId] : []));
  }

  /** What the trackers have taken down and what is known here can differ where a word was lost. */
  async #reconcile(): Promise<void> {
    if (!this.#service.replication.standing.isSettled) return;
    try {
      for (const id of await this.#ownPairs()) await this.#senders.get(id)?.state.reportLevel();
    } catch {
      // No tracker can be reached; the next time is soon.
    }
  }

  #without(): string[] {
    return [...this.#senders].filter(([, { state }]) => !state.isLive).map(([id]) => id);
  }

  /** Whoever is there has to know that this member is out, or is left as well. */
  async #tellOthers(id: string, withinMs: number): Promise<void> {
    await Promise.all(
      [...this.#senders].map(async ([other, sender]) => {
        if (other !== id) await sender.tellOut(id, withinMs);
      }),
    );
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

function order(one: ServerBrief, other: ServerBrief): number {
  return one.id < other.id ? -1 : 1;
}
