import type { Duplex } from 'node:stream';
import { KeyedLock } from '@stevedore/async';
import { type Disk, privateDisk } from '@stevedore/disk';
import type { FileRow } from '../filemap/filemap.js';
import { receiveCopies, refuseCopies } from './copy-receiver.js';
import { CopiesRefused, Refusal } from './frames.js';
import { HeldCopy, type HeldRoom, heldBytes, heldOrigins, removeHeld } from './held-copy.js';
import { HeldIndex } from './held-index.js';

/**
 * The copies that this gateway holds of other gateways' containers, in one directory per origin. One
 * process of the gateway owns them all. A copy is written while its gateway is connected, read while
 * that gateway cannot be reached, and taken over once it is gone for good.
 */

export interface HeldStats {
  readonly heldCopies: number;
  readonly heldBytes: number;
}

/** A staged file of another gateway, with its bytes. */
export interface HeldFile {
  readonly row: FileRow;
  readonly bytes: Buffer;
}

export interface HeldCopiesOptions {
  readonly folder: string;
  /** Of this gateway: the others record it as the holder of their copies. */
  readonly origin: number;
  readonly limitBytes: number;
  readonly now: () => number;
  readonly disk?: Disk;
}

/** Maximum number of connections. */
const MAX_CONNECTED = 256;

export class HeldCopies {
  readonly #options: HeldCopiesOptions;
  readonly #disk: Disk;
  readonly #room: HeldRoom;
  readonly #inTurn = new KeyedLock();
  readonly #reading = new KeyedLock();
  /** Those that are being written. */
  readonly #live = new Map<number, HeldCopy>();
  readonly #streams = new Map<number, Duplex>();
  readonly #indexes = new Map<number, HeldIndex>();
  /** Those whose copies are here. */
  readonly #origins: Set<number>;
  #isClosed = false;

  private constructor(options: HeldCopiesOptions, origins: Set<number>, usedBytes: number) {
    this.#options = options;
    this.#disk = options.disk ?? privateDisk;
    this.#origins = origins;
    this.#room = { limitBytes: options.limitBytes, usedBytes };
  }

  static async open(options: HeldCopiesOptions): Promise<HeldCopies> {
    const { folder, disk = privateDisk } = options;
    const origins = new Set(await heldOrigins(disk, folder));
    return new HeldCopies(options, origins, await heldBytes(disk, folder));
  }

  get origins(): readonly number[] {
    return [...this.#origins];
  }

  stats(): HeldStats {
    return { heldCopies: this.#origins.size, heldBytes: this.#room.usedBytes };
  }

  /**
   * Receives frames from the gateway of that origin until the connection ends. `isAdopted`: refuses
   * it, as another gateway has its files now. Never rejects.
   */
  async receive(origin: number, stream: Duplex, isAdopted: boolean): Promise<void> {
    stream.on('error', () => undefined);
    // The gateway reconnected before its last connection was found to be dead.
    this.#streams.get(origin)?.destroy();
    if (isAdopted) return refuseCopies(stream, adopted(origin));
    if (this.#isClosed) return refuseCopies(stream, leaving());
    if (this.#streams.size >= MAX_CONNECTED) {
      return refuseCopies(stream, new Error('it takes no more connections'));
    }
    this.#streams.set(origin, stream);
    try {
      await this.#inTurn.run(String(origin), async () => {
        if (stream.destroyed) return;
        await this.#closeIndex(origin);
        const held = await HeldCopy.open(this.#disk, this.#directoryOf(origin), origin, this.#room);
        this.#origins.add(origin);
        this.#live.set(origin, held);
        try {
          await receiveCopies(stream, held, this.#options.origin);
        } finally {
          this.#live.delete(origin);
          await this.#reading.run(String(origin), () => this.#closeIndex(origin));
          await held.close();
        }
      });
    } catch (error) {
      refuseCopies(stream, error as Error);
    } finally {
      if (this.#streams.get(origin) === stream) this.#streams.delete(origin);
    }
  }

  /** A staged file of another gateway; undefined if it is not here or its bytes are damaged. */
  async find(origin: number, key: Buffer): Promise<HeldFile | 'deleted' | undefined> {
    if (!this.#origins.has(origin)) return undefined;
    const live = this.#live.get(origin);
    // A connection keeps its turn.
    if (!live && this.#streams.has(origin)) return undefined;
    return (live ? this.#reading : this.#inTurn).run(String(origin), async () => {
      if (this.#live.get(origin) !== live || this.#isClosed) return undefined;
      const index = await (live ? this.#liveIndexOf(origin, live) : this.#indexOf(origin));
      if (index?.isDeleted(key)) return 'deleted';
      const row = index?.find(key);
      const bytes = row && (await index?.read(row));
      return bytes && { row, bytes };
    });
  }

  async #liveIndexOf(origin: number, live: HeldCopy): Promise<HeldIndex | undefined> {
    const index = this.#indexes.get(origin) ?? (await HeldIndex.live(this.#directoryOf(origin)));
    this.#indexes.set(origin, index);
    if (await index.follow(this.#disk, live.state())) return index;
    await this.#closeIndex(origin);
    return undefined;
  }

  /**
   * The copy of a gateway whose files are taken over; it can be read here until it is dropped.
   * Rejects if there is none.
   */
  async adopt(origin: number): Promise<HeldIndex> {
    const stream = this.#streams.get(origin);
    if (stream) refuseCopies(stream, adopted(origin));
    const index = await this.#inTurn.run(String(origin), () => this.#indexOf(origin));
    if (index) return index;
    const directory = this.#directoryOf(origin);
    throw new Error(
      `${directory} is not there, which holds the copies of its staged files: bring it back and start again, or, if it is lost, create an empty directory ${directory}/container`,
    );
  }

  /**
   * Drops the copy of a gateway that is not connected, if it is still unneeded once no connection
   * can begin.
   */
  async drop(origin: number, isUnneeded: () => Promise<boolean>): Promise<void> {
    if (this.#streams.has(origin)) return;
    await this.#inTurn.run(String(origin), async () => {
      if (this.#streams.has(origin) || !(await isUnneeded())) return;
      await this.#closeIndex(origin);
      this.#room.usedBytes -= await removeHeld(this.#disk, this.#directoryOf(origin));
      this.#origins.delete(origin);
    });
  }

  /** Ends all connections; their gateways choose another partner. */
  leave(): void {
    this.#isClosed = true;
    for (const stream of this.#streams.values()) refuseCopies(stream, leaving());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const stream of this.#streams.values()) stream.destroy();
    for (const origin of this.#origins) {
      await this.#inTurn.run(String(origin), () => this.#closeIndex(origin));
    }
  }

  #directoryOf(origin: number): string {
    return `${this.#options.folder}/${origin}`;
  }

  async #indexOf(origin: number): Promise<HeldIndex | undefined> {
    const known = this.#indexes.get(origin);
    if (known || !this.#origins.has(origin)) return known;
    const { now } = this.#options;
    const index = await HeldIndex.open(this.#disk, this.#directoryOf(origin), now());
    this.#indexes.set(origin, index);
    return index;
  }

  async #closeIndex(origin: number): Promise<void> {
    const index = this.#indexes.get(origin);
    this.#indexes.delete(origin);
    await index?.close();
  }
}

/** Its own directory must not be used again. */
function adopted(origin: number): CopiesRefused {
  const message = `the files of origin ${origin} were taken over by its partner`;
  return new CopiesRefused(message, Refusal.forGood);
}

function leaving(): CopiesRefused {
  return new CopiesRefused('the partner is stopping', Refusal.leaving);
}
