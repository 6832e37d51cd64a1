import type { Duplex } from 'node:stream';
import { KeyedLock } from '@stevedore/async';
import { type Disk, privateDisk, replaceFile } from '@stevedore/disk';
import type { FileRow } from '../filemap/filemap.js';
import { receiveCopies, refuseCopies } from './copy-receiver.js';
import { CopiesRefused, Refusal } from './frames.js';
import {
  ADOPTED_FILE,
  HeldCopy,
  type HeldRoom,
  heldBytes,
  heldOrigins,
  originAdopted,
  removeHeld,
} from './held-copy.js';
import { HeldIndex } from './held-index.js';

/**
 * The copies that this gateway holds of other gateways' containers, in one directory per origin. One
 * process of the gateway owns them all. A copy is written while its gateway is connected, read while
 * that gateway is down, and taken over once it is gone for good.
 */

export interface HeldStats {
  readonly heldCopies: number;
  readonly heldBytes: number;
}

/** A staged file of a disconnected gateway, with its bytes. */
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
  readonly #streams = new Map<number, Duplex>();
  readonly #indexes = new Map<number, HeldIndex>();
  /** Those whose copies are here. */
  readonly #origins: Set<number>;
  /** Those whose files are being taken over. */
  readonly #adopting = new Set<number>();
  #isClosed = false;

  private constructor(options: HeldCopiesOptions, origins: Set<number>, usedBytes: number) {
    this.#options = options;
    this.#disk = options.disk ?? privateDisk;
    this.#origins = origins;
    this.#room = { limitBytes: options.limitBytes, usedBytes };
  }

  static async open(options: HeldCopiesOptions): Promise<HeldCopies> {
    const { folder, disk = privateDisk } = options;
    const origins = new Set<number>();
    for (const origin of await heldOrigins(disk, folder)) {
      const directory = `${folder}/${origin}`;
      // What a crash during a takeover has left is removed.
      if (await disk.exists(`${directory}/${ADOPTED_FILE}`)) await removeHeld(disk, directory);
      else origins.add(origin);
    }
    return new HeldCopies(options, origins, await heldBytes(disk, folder));
  }

  /** Origins of the gateways whose copies are here. */
  get origins(): readonly number[] {
    return [...this.#origins];
  }

  stats(): HeldStats {
    return { heldCopies: this.#origins.size, heldBytes: this.#room.usedBytes };
  }

  /** Receives frames from the gateway of that origin until the connection ends. Never rejects. */
  async receive(origin: number, stream: Duplex): Promise<void> {
    stream.on('error', () => undefined);
    // The gateway reconnected before its last connection was found to be dead.
    this.#streams.get(origin)?.destroy();
    if (this.#isClosed || this.#streams.size >= MAX_CONNECTED) {
      refuseCopies(stream, this.#isClosed ? leaving() : new Error('it takes no more connections'));
      return;
    }
    this.#streams.set(origin, stream);
    try {
      await this.#inTurn.run(String(origin), async () => {
        if (stream.destroyed) return;
        if (this.#adopting.has(origin)) throw originAdopted(origin);
        await this.#closeIndex(origin);
        const held = await HeldCopy.open(this.#disk, this.#directoryOf(origin), origin, this.#room);
        this.#origins.add(origin);
        try {
          await receiveCopies(stream, held, this.#options.origin);
        } finally {
          await held.close();
        }
      });
    } catch (error) {
      refuseCopies(stream, error as Error);
    } finally {
      if (this.#streams.get(origin) === stream) this.#streams.delete(origin);
    }
  }

  /**
   * A staged file of a disconnected gateway; undefined if it is not here or its bytes are damaged.
   */
  async find(origin: number, key: Buffer): Promise<HeldFile | 'deleted' | undefined> {
    // A connection keeps its turn.
    if (this.#streams.has(origin) || !this.#origins.has(origin)) return undefined;
    return this.#inTurn.run(String(origin), async () => {
      if (this.#streams.has(origin) || this.#isClosed) return undefined;
      const index = await this.#indexOf(origin);
      if (index?.isDeleted(key)) return 'deleted';
      const row = index?.find(key);
      const bytes = row && (await index?.read(row));
      return bytes && { row, bytes };
    });
  }

  /**
   * Runs `work` on the copy of a gateway that is gone for good, then records the takeover. From now
   * on that gateway is refused; its files can be read here until the work is done. False if they were
   * taken over before. Rejects if there is no copy, and with errors of `work`; it can be repeated.
   */
  async adopt(origin: number, work: (index: HeldIndex) => Promise<void>): Promise<boolean> {
    this.#adopting.add(origin);
    const stream = this.#streams.get(origin);
    if (stream) refuseCopies(stream, originAdopted(origin));
    const index = await this.#inTurn.run(String(origin), () => this.#indexOf(origin));
    const directory = this.#directoryOf(origin);
    if (!index) {
      if (await this.#disk.exists(`${directory}/${ADOPTED_FILE}`)) return false;
      throw new Error(
        `${directory} is not there, which holds the copies of its staged files: bring it back and start again, or, if it is lost, create an empty file ${directory}/${ADOPTED_FILE}`,
      );
    }
    await work(index);
    await this.#remove(origin, () => replaceFile(this.#disk, directory, ADOPTED_FILE, ''));
    return true;
  }

  /**
   * Drops the copy of a gateway that is not connected, if it is still unneeded once no connection
   * can begin.
   */
  async drop(origin: number, isUnneeded: () => Promise<boolean>): Promise<void> {
    const isFree = () => !this.#streams.has(origin) && !this.#adopting.has(origin);
    if (!isFree()) return;
    await this.#remove(origin, async () => isFree() && (await isUnneeded()));
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

  /** Removes the copy, unless `before` resolves with false. */
  #remove(origin: number, before: () => Promise<unknown>): Promise<void> {
    return this.#inTurn.run(String(origin), async () => {
      if ((await before()) === false) return;
      await this.#closeIndex(origin);
      this.#room.usedBytes -= await removeHeld(this.#disk, this.#directoryOf(origin));
      this.#origins.delete(origin);
    });
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

function leaving(): CopiesRefused {
  return new CopiesRefused('the partner is stopping', Refusal.leaving);
}
