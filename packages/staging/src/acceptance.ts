import type { Disk } from '@stevedore/disk';
import type { Container } from './container.js';
import type { MergeTask } from './merge-task.js';
import { fileRecord, type NewFile } from './records.js';
import type { Retention } from './retention.js';
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
}

/** Room that a new segment's header and small records may need beyond a file's bytes. */
const RECORD_ROOM_BYTES = 4096;
/** Merging starts early when this share of the container is taken. */
const SHORT_SHARE = 0.8;

export class Acceptance {
  readonly #parts: AcceptanceParts;
  readonly #room: Room;
  #freeBytes: number;

  constructor(parts: AcceptanceParts) {
    this.#parts = parts;
    this.#freeBytes = parts.freeBytes;
    this.#room = new Room({
      limitBytes: parts.containerBytes,
      minFreeBytes: parts.minFreeBytes,
      usedBytes: () => this.usedBytes,
      freeBytes: () => this.#freeBytes,
    });
  }

  get usedBytes(): number {
    return this.#parts.container.bytes + this.#parts.spool.bytes;
  }

  /** The container is nearly full. */
  get isShort(): boolean {
    return this.usedBytes > this.#parts.containerBytes * SHORT_SHARE;
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

  /** Throws `container_full`. */
  async makeRoom(bytes: number): Promise<void> {
    const excess = this.#room.excess(bytes);
    if (excess > 0) {
      this.#parts.merging().wake();
      await this.#parts.retention.trim(excess);
    }
    this.#room.demand(bytes);
  }

  /** Throws `container_full` if a body that is being spooled takes the last room. */
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

  async lookAtDisk(disk: Disk, directory: string): Promise<void> {
    this.#freeBytes = (await disk.space(directory)).freeBytes;
  }
}
