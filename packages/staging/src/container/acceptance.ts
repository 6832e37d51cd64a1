import { serial } from '@stevedore/disk';
import type { MergeTask } from '../merge/merge-task.js';
import type { Retention } from '../upkeep/retention.js';
import type { Container } from './container.js';
import { fileRecord, type NewFile } from './records.js';
import { Room, type RoomStats } from './room.js';
import type { Spool, SpoolWriter } from './spool.js';

/**
 * Takes new files in: makes room for each before a byte of it is written, so that the
 * disk never fills up, and refuses it where there is none.
 */
export interface AcceptanceParts {
  readonly container: Container;
  readonly spool: Spool;
  readonly retention: Retention;
  readonly merging: () => MergeTask;
  /** Acknowledge once a file is durable; false: once the system has it. */
  readonly sync: boolean;
  readonly containerBytes: number;
  readonly minFreeBytes: number;
  /** Of the disk, at the start. */
  readonly freeBytes: number;
  readonly readFreeBytes: () => Promise<number>;
}

/** Room that a new segment's header and small records may need beyond a file's bytes. */
const RECORD_ROOM_BYTES = 4096;
/** Merging starts early when this share of the container is taken. */
const SHORT_SHARE = 0.8;
/** Free room, as a multiple of the least, below which read copies begin to go. */
const COMFORT_FACTOR = 1.5;

export class Acceptance {
  readonly #parts: AcceptanceParts;
  readonly #room: Room;
  readonly #inTurn = serial();
  /** Free on the disk when it was last looked at, and what was used here then. */
  #seenFreeBytes: number;
  #seenUsedBytes: number;

  constructor(parts: AcceptanceParts) {
    this.#parts = parts;
    this.#seenFreeBytes = parts.freeBytes;
    this.#seenUsedBytes = this.usedBytes;
    this.#room = new Room({
      limitBytes: parts.containerBytes,
      minFreeBytes: parts.minFreeBytes,
      usedBytes: () => this.usedBytes,
      freeBytes: () => this.#freeBytes,
    });
  }

  /** As of the last look, and what has come and gone here since. */
  get #freeBytes(): number {
    return this.#seenFreeBytes - (this.usedBytes - this.#seenUsedBytes);
  }

  get usedBytes(): number {
    return this.#parts.container.bytes + this.#parts.spool.bytes;
  }

  /** The container, or its disk, is nearly full. */
  get isShort(): boolean {
    const { containerBytes, minFreeBytes } = this.#parts;
    if (this.usedBytes > containerBytes * SHORT_SHARE) return true;
    return this.#freeBytes < minFreeBytes * COMFORT_FACTOR;
  }

  /** As `Staging.stage`. */
  async stage(files: readonly NewFile[], sync: boolean): Promise<void> {
    const { container, merging } = this.#parts;
    const inPlace = files.reduce((sum, file) => sum + (file.body ? file.size : 0), 0);
    await this.makeRoom(inPlace + RECORD_ROOM_BYTES * files.length);
    await container.append(files.map(fileRecord), sync && this.#parts.sync);
    for (const file of files) merging().noteStaged(file.size, file.body === undefined);
  }

  /** Begins a file of its own for a large body; `bytes` is what is known of its length. */
  async beginSpooled(key: Buffer, bytes: number): Promise<SpoolWriter> {
    await this.makeRoom(bytes);
    return this.#parts.spool.begin(key);
  }

  /** The same for a large file that was here before. */
  async beginAgain(key: Buffer, bytes: number): Promise<SpoolWriter> {
    await this.makeRoom(bytes);
    return this.#parts.spool.beginAgain(key);
  }

  /** Read copies go first. Throws `container_full`, `disk_full`. */
  async makeRoom(bytes: number): Promise<void> {
    if (this.#room.shortage(bytes) > 0) {
      this.#parts.merging().wake();
      await this.#inTurn(() => this.#trim(this.#room.shortage(bytes)));
    }
    this.#room.demand(bytes);
  }

  /** The one before in turn may have freed enough. */
  async #trim(neededBytes: number): Promise<void> {
    if (neededBytes === 0) return;
    await this.#parts.retention.trim(neededBytes);
    await this.#look();
  }

  /** Throws `container_full`, `disk_full` if a body that is being spooled takes the last room. */
  checkRoom(): void {
    this.#room.demand(0);
  }

  /** True while a small file would be taken. */
  hasRoom(): boolean {
    return this.#room.has(RECORD_ROOM_BYTES);
  }

  stats(): RoomStats {
    return this.#room.stats();
  }

  /**
   * Looks at the disk; what is nearly needed is freed before anybody waits for it: others,
   * such as a storage beside the container, may need it first.
   */
  async lookAtDisk(): Promise<void> {
    const { minFreeBytes } = this.#parts;
    await this.#look();
    const nearly = minFreeBytes * COMFORT_FACTOR - this.#freeBytes;
    if (nearly > 0) await this.#inTurn(() => this.#trim(nearly));
  }

  async #look(): Promise<void> {
    // What is written meanwhile counts twice rather than not at all.
    const used = this.usedBytes;
    this.#seenFreeBytes = await this.#parts.readFreeBytes();
    this.#seenUsedBytes = used;
  }
}
