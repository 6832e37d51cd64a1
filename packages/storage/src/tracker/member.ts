import {
  type DiskUsage,
  type JoinRequest,
  type ServerBrief,
  StorageStatus,
} from '@stevedore/protocol';

/**
 * A storage server as the tracker knows it. Its status:
 *
 *     INIT, ONLINE  --first beat or disk report-->  ACTIVE
 *     any           --its connection ends------->   OFFLINE  --join-->  ONLINE
 *
 * A server that is silent for too long keeps its status but counts as away.
 */
export class Member {
  /** Address that its connection comes from; the id too, as there are no storage ids. */
  readonly address: string;
  #status: number = StorageStatus.none;
  #port = 0;
  #storePathCount = 1;
  #usage: readonly DiskUsage[] = [];
  #currentWritePath = 0;
  #heardAtMs = 0;
  /** The connection it joined on. An older one that ends later changes nothing. */
  #link: object | undefined;
  /** True once the member list has been sent on this connection. */
  #told = false;

  constructor(address: string) {
    this.address = address;
  }

  get status(): number {
    return this.#status;
  }

  get port(): number {
    return this.#port;
  }

  get connected(): boolean {
    return this.#link !== undefined;
  }

  /** Takes the join; what it returns is the status that the storage is told. */
  join(request: JoinRequest, link: object, nowMs: number): number {
    const known = this.#status !== StorageStatus.none;
    this.#status = known || !request.initial ? StorageStatus.online : StorageStatus.init;
    this.#port = request.port;
    this.#storePathCount = request.storePathCount;
    this.#link = link;
    this.#told = false;
    this.#heardAtMs = nowMs;
    return this.#status;
  }

  heard(nowMs: number): void {
    this.#status = StorageStatus.active;
    this.#heardAtMs = nowMs;
  }

  reportUsage(usage: readonly DiskUsage[], nowMs: number): void {
    this.#usage = usage.slice(0, this.#storePathCount);
    this.heard(nowMs);
  }

  leave(link: object): void {
    if (this.#link !== link) return;
    this.#link = undefined;
    this.#status = StorageStatus.offline;
  }

  /** True if requests may be sent to it. */
  serves(nowMs: number, checkActiveIntervalMs: number): boolean {
    return (
      this.#status === StorageStatus.active && nowMs - this.#heardAtMs <= checkActiveIntervalMs
    );
  }

  hasRoom(reservedMegabytes: number): boolean {
    return this.#usage.some((path) => path.freeMegabytes > reservedMegabytes);
  }

  /** The store path for the next upload, in turns over those that have room. */
  nextStorePath(reservedMegabytes: number): number | undefined {
    const count = this.#usage.length;
    for (let step = 0; step < count; step++) {
      const index = (this.#currentWritePath + step) % count;
      if (this.#usage[index]!.freeMegabytes <= reservedMegabytes) continue;
      this.#currentWritePath = (index + 1) % count;
      return index;
    }
    return undefined;
  }

  /** True the first time it is asked on a connection. */
  mustBeTold(): boolean {
    const first = !this.#told;
    this.#told = true;
    return first;
  }

  brief(): ServerBrief {
    return {
      status: this.#status,
      port: this.#port,
      id: this.address,
      address: this.address,
    };
  }
}
