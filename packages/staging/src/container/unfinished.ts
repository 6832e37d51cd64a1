import { KeyedLock } from '@stevedore/async';
import { type Disk, type DiskFile, readSmallFile, removeIfThere } from '@stevedore/disk';
import { StoreError } from '../errors.js';
import { formatKey } from '../key.js';
import { BlockChecksums } from './block-checksums.js';
import type { Spool } from './spool.js';
import {
  MAX_INFO_BYTES,
  type Mark,
  markPosition,
  packInfo,
  packMark,
  type UnfinishedAbout,
  unpackInfo,
} from './unfinished-record.js';
import { UnfinishedShares } from './unfinished-share.js';

/**
 * Unfinished resumable uploads. Each has two files, its bytes and their description, named by the
 * key of the future file. Bytes that `append` acknowledged survive crashes until the upload is
 * finished, removed or too old. An upload that has become a file is never an unfinished upload as
 * well.
 */
export interface UnfinishedParts {
  readonly disk: Disk;
  readonly folder: string;
  readonly spool: Spool;
  /** Most bytes of all unfinished uploads. Default: no limit. */
  readonly limitBytes?: number;
  /** Bytes to gather before a write. Default 128 KiB. */
  readonly writeBytes?: number;
  /** Bytes between two syncs: a crash loses at most this many. Default 8 MiB. */
  readonly syncBytes?: number;
}

export interface UnfinishedUpload {
  readonly about: UnfinishedAbout;
  readonly sizeBytes: number | undefined;
  /** Durable bytes; the next append starts here. */
  readonly durableBytes: number;
}

export interface AppendOptions {
  /** Called before each write. If it throws, the request ends. */
  readonly beforeWrite: () => void;
  /** Called after the last byte. If it throws, all bytes of the request are truncated. */
  readonly check?: (() => void) | undefined;
}

interface Entry {
  readonly about: UnfinishedAbout;
  mark: Mark;
  /** Bytes in the file, durable or not. */
  bytes: number;
}

const WRITE_BYTES = 128 * 1024;
const SYNC_BYTES = 8 * 2 ** 20;
const READ_BYTES = 256 * 1024;

export class Unfinished {
  readonly #parts: UnfinishedParts;
  readonly #entries = new Map<string, Entry>();
  readonly #inTurn = new KeyedLock();
  readonly #shares: UnfinishedShares;

  constructor(parts: UnfinishedParts) {
    this.#parts = parts;
    this.#shares = new UnfinishedShares(parts.limitBytes ?? Number.POSITIVE_INFINITY);
  }

  get bytes(): number {
    return this.#shares.bytes;
  }

  get count(): number {
    return this.#entries.size;
  }

  /**
   * Throws `container_full` if there are too many, `too_many_unfinished` or `client_room_exceeded`
   * if the owner has, `too_large` if it can never be finished.
   */
  async begin(
    key: Buffer,
    about: UnfinishedAbout,
    sizeBytes: number | undefined,
    maxOfOwner = Number.POSITIVE_INFINITY,
  ): Promise<UnfinishedUpload> {
    this.#shares.begin(about.owner, sizeBytes ?? 0, maxOfOwner);
    const name = nameOf(key);
    const entry = { about, mark: { turn: 1, durableBytes: 0, sizeBytes }, bytes: 0 };
    this.#entries.set(name, entry);
    const { disk, folder } = this.#parts;
    try {
      await (await disk.create(this.#path(name))).close();
      const info = await disk.create(this.#info(name));
      try {
        await info.writeAt([packInfo(about, entry.mark)], 0);
        await info.sync();
      } finally {
        await info.close();
      }
      await disk.syncDirectory(folder);
    } catch (error) {
      await this.#remove(name).catch(() => undefined);
      throw error;
    }
    return viewOf(entry);
  }

  find(key: Buffer): UnfinishedUpload | undefined {
    const entry = this.#entries.get(nameOf(key));
    return entry && viewOf(entry);
  }

  /** One with this idempotency mark. */
  findOnce(once: string): Buffer | undefined {
    for (const [name, { about }] of this.#entries) {
      if (about.once === once) return Buffer.from(name, 'hex');
    }
    return undefined;
  }

  /** Resolves once all operations on the upload have ended. */
  settled(key: Buffer): Promise<void> {
    return this.#inTurn.run(nameOf(key), async () => undefined);
  }

  /**
   * Appends bytes and resolves with the new total, all durable. If the body ends early, the bytes
   * received are kept, unless the body is checked as a whole. Throws `offset_mismatch`,
   * `too_large`, `not_found`.
   */
  append(
    key: Buffer,
    offset: number,
    body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    options: AppendOptions,
  ): Promise<number> {
    return this.#turn(key, async (name, entry) => {
      if (entry.mark.durableBytes !== offset) {
        const message = `the upload has ${entry.mark.durableBytes} bytes, these begin at ${offset}; ask how many there are and go on from there`;
        throw new StoreError('offset_mismatch', message);
      }
      const file = await this.#parts.disk.openToUpdate(this.#path(name));
      try {
        await this.#take(name, entry, file, body, options);
        return entry.bytes;
      } finally {
        await file.close();
      }
    });
  }

  async #take(
    name: string,
    entry: Entry,
    file: DiskFile,
    body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    { beforeWrite, check }: AppendOptions,
  ): Promise<void> {
    const { writeBytes = WRITE_BYTES, syncBytes = SYNC_BYTES } = this.#parts;
    const start = entry.bytes;
    let chunks: Uint8Array[] = [];
    let gathered = 0;
    const flush = async (): Promise<void> => {
      const [writing, bytes] = [chunks, gathered];
      [chunks, gathered] = [[], 0];
      if (bytes === 0) return;
      beforeWrite();
      this.#shares.hold(entry.about.owner, bytes);
      try {
        await file.writeAt(writing, entry.bytes);
      } catch (error) {
        this.#shares.change(entry.about.owner, 0, -bytes);
        throw error;
      }
      entry.bytes += bytes;
      if (!check && entry.bytes - entry.mark.durableBytes >= syncBytes) {
        await this.#makeDurable(name, entry, file);
      }
    };
    try {
      const { sizeBytes = Number.POSITIVE_INFINITY } = entry.mark;
      for await (const chunk of body) {
        if (entry.bytes + gathered + chunk.length > sizeBytes) {
          throw new StoreError(
            'too_large',
            `the upload was announced with ${sizeBytes} bytes, and more arrived`,
          );
        }
        chunks.push(chunk);
        gathered += chunk.length;
        if (gathered >= writeBytes) await flush();
      }
      await flush();
      check?.();
    } catch (error) {
      if (!this.#entries.has(name)) throw error;
      if (check) {
        await file.truncate(start);
        this.#shares.change(entry.about.owner, 0, start - entry.bytes);
        entry.bytes = start;
      } else {
        // Bytes received earlier are kept. If that fails, the first error is reported.
        await flush().catch(() => undefined);
        await this.#makeDurable(name, entry, file);
      }
      throw error;
    }
    await this.#makeDurable(name, entry, file);
  }

  /** Throws `length_mismatch` if the size is known or exceeded already. */
  declareSize(key: Buffer, sizeBytes: number): Promise<void> {
    return this.#turn(key, async (name, entry) => {
      if (entry.mark.sizeBytes !== undefined || entry.bytes > sizeBytes) {
        const message = `the upload has ${entry.bytes} of ${entry.mark.sizeBytes ?? 'unknown'} bytes; its size cannot become ${sizeBytes}`;
        throw new StoreError('length_mismatch', message);
      }
      await this.#writeMark(name, entry, { durableBytes: entry.mark.durableBytes, sizeBytes });
    });
  }

  /** Its bytes from `start` to before `end`, in order. */
  async *read(key: Buffer, start: number, end: number): AsyncGenerator<Buffer> {
    const name = nameOf(key);
    this.#demand(name);
    const file = await this.#parts.disk.openToRead(this.#path(name));
    try {
      for (let at = start; at < end; ) {
        const chunk = Buffer.allocUnsafe(Math.min(READ_BYTES, end - at));
        if ((await file.readAt(chunk, at)) !== chunk.length) throw short(name);
        at += chunk.length;
        yield chunk;
      }
    } finally {
      await file.close();
    }
  }

  /**
   * Moves the bytes to the spool and calls `accept` to make them a file. Moves them back if that
   * fails. `accept` gets the checksums of the bytes on disk.
   */
  finishSpooled(key: Buffer, accept: (sums: BlockChecksums) => Promise<void>): Promise<void> {
    return this.#turn(key, async (name, { bytes }) => {
      const sums = new BlockChecksums();
      for await (const chunk of this.read(key, 0, bytes)) sums.add(chunk);
      const { disk, spool, folder } = this.#parts;
      await spool.adopt(key, this.#path(name), bytes);
      try {
        await disk.syncDirectory(folder);
        await accept(sums);
      } catch (error) {
        await spool.giveBack(key, this.#path(name));
        throw error;
      }
      await this.#remove(name);
    });
  }

  /** Calls `accept` with the bytes of a small file, then removes the upload. */
  finishSmall(key: Buffer, accept: (bytes: Buffer) => Promise<void>): Promise<void> {
    return this.#turn(key, async (name, { bytes }) => {
      const chunks: Buffer[] = [];
      for await (const chunk of this.read(key, 0, bytes)) chunks.push(chunk);
      await accept(Buffer.concat(chunks));
      await this.#remove(name);
    });
  }

  /** Throws `not_found`. */
  remove(key: Buffer): Promise<void> {
    return this.#turn(key, (name) => this.#remove(name));
  }

  /** Removes uploads begun before `since`, in Unix milliseconds. Resolves with their number. */
  async removeOlder(since: number): Promise<number> {
    let removed = 0;
    for (const [name, { about }] of [...this.#entries]) {
      if (about.createdAt >= since) continue;
      await this.#inTurn.run(name, () => this.#remove(name));
      removed += 1;
    }
    return removed;
  }

  /**
   * Finds the uploads at start, before the spool removes files without a record: such a file may be
   * an upload that was about to become a file.
   */
  async recover(isKnown: (key: Buffer) => boolean): Promise<void> {
    const { disk, folder, spool } = this.#parts;
    const names = new Set(await disk.list(folder));
    for (const file of names) {
      const name = file.replace(/\.info$/, '');
      const key = /^[0-9a-f]{32}$/.test(name) ? Buffer.from(name, 'hex') : undefined;
      if (!key || (file === name && !names.has(`${name}.info`))) {
        await removeIfThere(disk, `${folder}/${file}`);
      } else if (file !== name) {
        const bytes = await readSmallFile(disk, `${folder}/${file}`, MAX_INFO_BYTES);
        const found = bytes && !isKnown(key) ? unpackInfo(bytes) : undefined;
        if (!found) await this.#remove(name);
        else if (names.has(name) || (await spool.giveBack(key, this.#path(name)))) {
          await this.#adopt(name, found);
        } else await this.#remove(name);
      }
    }
    await disk.syncDirectory(folder);
  }

  /** Bytes beyond the mark may differ from what was sent. */
  async #adopt(name: string, { about, mark }: Omit<Entry, 'bytes'>): Promise<void> {
    const file = await this.#parts.disk.openToUpdate(this.#path(name));
    try {
      const { size } = await file.stat();
      if (size < mark.durableBytes) {
        await this.#remove(name);
        return;
      }
      await file.truncate(mark.durableBytes);
    } finally {
      await file.close();
    }
    this.#entries.set(name, { about, mark, bytes: mark.durableBytes });
    this.#shares.change(about.owner, 1, mark.durableBytes);
  }

  async #makeDurable(name: string, entry: Entry, file: DiskFile): Promise<void> {
    if (entry.bytes === entry.mark.durableBytes) return;
    try {
      await file.sync();
      const { sizeBytes } = entry.mark;
      await this.#writeMark(name, entry, { durableBytes: entry.bytes, sizeBytes });
    } catch (error) {
      // The state on disk is unknown from here on.
      await this.#remove(name).catch(() => undefined);
      throw error;
    }
  }

  async #writeMark(name: string, entry: Entry, next: Omit<Mark, 'turn'>): Promise<void> {
    const mark = { turn: entry.mark.turn + 1, ...next };
    const file = await this.#parts.disk.openToUpdate(this.#info(name));
    try {
      await file.writeAt([packMark(mark)], markPosition(mark));
      await file.sync();
    } finally {
      await file.close();
    }
    entry.mark = mark;
  }

  async #remove(name: string): Promise<void> {
    const { disk } = this.#parts;
    const entry = this.#entries.get(name);
    if (entry) this.#shares.change(entry.about.owner, -1, -entry.bytes);
    this.#entries.delete(name);
    // Remove the bytes first: without them no upload can be recovered.
    await removeIfThere(disk, this.#path(name));
    await removeIfThere(disk, this.#info(name));
  }

  /** Throws `not_found`. */
  #turn<Result>(
    key: Buffer,
    work: (name: string, entry: Entry) => Promise<Result>,
  ): Promise<Result> {
    const name = nameOf(key);
    return this.#inTurn.run(name, async () => work(name, this.#demand(name)));
  }

  #demand(name: string): Entry {
    const entry = this.#entries.get(name);
    if (entry) return entry;
    const key = formatKey(Buffer.from(name, 'hex'));
    throw new StoreError('not_found', `there is no unfinished upload ${key}`);
  }

  #path(name: string): string {
    return `${this.#parts.folder}/${name}`;
  }

  #info(name: string): string {
    return `${this.#parts.folder}/${name}.info`;
  }
}

function nameOf(key: Buffer): string {
  return key.toString('hex');
}

function viewOf({ about, mark }: Entry): UnfinishedUpload {
  return { about, sizeBytes: mark.sizeBytes, durableBytes: mark.durableBytes };
}

function short(name: string): StoreError {
  const key = formatKey(Buffer.from(name, 'hex'));
  return new StoreError(
    'corrupt',
    `the unfinished upload ${key} has lost bytes that were acknowledged`,
  );
}
