import type { Duplex } from 'node:stream';
import { KeyedLock } from '@stevedore/async';
import { type Disk, privateDisk, replaceFile } from '@stevedore/disk';
import { DirectoryLock } from '../directory-lock.js';
import { isStoreError } from '../errors.js';
import type { FileRow } from '../filemap/filemap.js';
import { receiveCopies, refuseCopies } from './copy-receiver.js';
import {
  ADOPTED_FILE,
  HeldCopy,
  type HeldRoom,
  heldBytes,
  heldOrigins,
  removeHeld,
} from './held-copy.js';
import { HeldIndex } from './held-index.js';

/**
 * The copies that this gateway holds of other gateways' containers, in one directory per origin,
 * shared by all of its processes. A copy is written while its gateway is connected, read while that
 * gateway is down, and taken over once it is gone for good. Only one of these happens at a time.
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

/** Maximum number of connections. */
const MAX_CONNECTED = 256;

export class HeldCopies {
  readonly #folder: string;
  readonly #disk: Disk;
  readonly #room: HeldRoom;
  readonly #now: () => number;
  readonly #inTurn = new KeyedLock();
  readonly #streams = new Map<number, Duplex>();
  readonly #indexes = new Map<number, HeldIndex>();
  readonly #origins: Set<number>;
  #isClosed = false;

  private constructor(
    folder: string,
    disk: Disk,
    room: HeldRoom,
    origins: readonly number[],
    now: () => number,
  ) {
    this.#folder = folder;
    this.#disk = disk;
    this.#room = room;
    this.#origins = new Set(origins);
    this.#now = now;
  }

  static async open(options: {
    readonly folder: string;
    readonly limitBytes: number;
    readonly now: () => number;
    readonly disk?: Disk;
  }): Promise<HeldCopies> {
    const { folder, limitBytes, now, disk = privateDisk } = options;
    const origins = await heldOrigins(disk, folder);
    for (const origin of origins) {
      // Left by a crash during a takeover.
      const directory = `${folder}/${origin}`;
      if (await disk.exists(`${directory}/${ADOPTED_FILE}`)) await removeHeld(disk, directory);
    }
    const usedBytes = await heldBytes(disk, folder);
    return new HeldCopies(folder, disk, { limitBytes, usedBytes }, origins, now);
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
      refuseCopies(stream, new Error('it takes no more connections'));
      return;
    }
    this.#streams.set(origin, stream);
    try {
      await this.#inTurn.run(String(origin), async () => {
        if (stream.destroyed) return;
        await this.#closeIndex(origin);
        const directory = this.#directoryOf(origin);
        // Other processes of this gateway may have changed it.
        this.#room.usedBytes = await heldBytes(this.#disk, this.#folder);
        const held = await HeldCopy.open(this.#disk, directory, origin, this.#room);
        this.#origins.add(origin);
        try {
          await receiveCopies(stream, held);
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
  async find(origin: number, key: Buffer): Promise<HeldFile | undefined> {
    if (this.#streams.has(origin) || !(await this.#isHeld(origin))) return undefined;
    return this.#inTurn.run(String(origin), async () => {
      if (this.#streams.has(origin) || this.#isClosed) return undefined;
      const index = await this.#openIndex(origin);
      const row = index?.find(key);
      const bytes = row && (await index?.read(row));
      return bytes && { row, bytes };
    });
  }

  /**
   * Runs `work` on the copy of a gateway that is gone for good, then records the takeover: from
   * then on, that gateway is refused. False if there is no copy.
   */
  async adopt(origin: number, work: (index: HeldIndex) => Promise<void>): Promise<boolean> {
    if (!(await this.#isHeld(origin))) return false;
    return this.#inTurn.run(String(origin), async () => {
      const index = await this.#openIndex(origin);
      if (!index) return false;
      await work(index);
      await this.#closeIndex(origin);
      const directory = this.#directoryOf(origin);
      await replaceFile(this.#disk, directory, ADOPTED_FILE, '');
      this.#room.usedBytes -= await removeHeld(this.#disk, directory);
      return true;
    });
  }

  /**
   * Drops the copy: its gateway now has another partner. False if that gateway is connected here:
   * the request is old, and this is the partner again.
   */
  async drop(origin: number): Promise<boolean> {
    if (this.#streams.has(origin)) return false;
    if (!(await this.#isHeld(origin))) return true;
    return this.#inTurn.run(String(origin), async () => {
      if (this.#streams.has(origin)) return false;
      await this.#closeIndex(origin);
      const directory = this.#directoryOf(origin);
      const lock = lockUnlessTaken(directory);
      if (!lock) return false;
      try {
        this.#room.usedBytes -= await removeHeld(this.#disk, directory);
      } finally {
        lock.release();
      }
      this.#origins.delete(origin);
      return true;
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const stream of this.#streams.values()) stream.destroy();
    for (const origin of this.#origins) {
      await this.#inTurn.run(String(origin), () => this.#closeIndex(origin));
    }
  }

  /** True if this gateway holds a copy, whichever of its processes has it open. */
  #isHeld(origin: number): Promise<boolean> {
    return this.#disk.exists(`${this.#directoryOf(origin)}/container`);
  }

  #directoryOf(origin: number): string {
    return `${this.#folder}/${origin}`;
  }

  /** Undefined if another process has the copy open: its gateway is connected there. */
  async #openIndex(origin: number): Promise<HeldIndex | undefined> {
    const known = this.#indexes.get(origin);
    if (known) return known;
    const directory = this.#directoryOf(origin);
    if (await this.#disk.exists(`${directory}/${ADOPTED_FILE}`)) return undefined;
    try {
      const index = await HeldIndex.open(this.#disk, directory, this.#now());
      this.#indexes.set(origin, index);
      return index;
    } catch (error) {
      if (isStoreError(error, 'directory_locked')) return undefined;
      throw error;
    }
  }

  async #closeIndex(origin: number): Promise<void> {
    const index = this.#indexes.get(origin);
    this.#indexes.delete(origin);
    await index?.close();
  }
}

/** Undefined if another process has the copy open. */
function lockUnlessTaken(directory: string): DirectoryLock | undefined {
  try {
    return DirectoryLock.acquire(directory);
  } catch (error) {
    if (isStoreError(error, 'directory_locked')) return undefined;
    throw error;
  }
}
