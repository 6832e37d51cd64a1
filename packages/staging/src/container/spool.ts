import { crc32 } from 'node:zlib';
import { type Disk, type DiskFile, hasCode, removeIfThere } from '@stevedore/disk';
import { isStoreError, StoreError } from '../errors.js';
import { BlockChecksums } from './block-checksums.js';
import { readFirmly, Unreadable } from './segment.js';

/**
 * Bodies that are too large for the container: one file each, named by key in hexadecimal, durable
 * before its record. A file that returns to the spool has a temporary name until it is complete,
 * because a record of its key may exist.
 */
export class Spool {
  readonly #disk: Disk;
  readonly #folder: string;
  readonly #sizes = new Map<string, number>();
  #bytes = 0;

  constructor(disk: Disk, folder: string) {
    this.#disk = disk;
    this.#folder = folder;
  }

  /** Bytes of all spooled files, including those being written. */
  get bytes(): number {
    return this.#bytes;
  }

  /** `isBack`: for a file that returns to the spool. */
  async begin(key: Buffer, isBack = false): Promise<SpoolWriter> {
    const name = key.toString('hex');
    const written = isBack ? `${name}${ASIDE}` : name;
    // Left by an attempt that could not be rolled back.
    if (isBack) await this.#remove(written);
    const file = await this.#disk.create(`${this.#folder}/${written}`);
    this.#sizes.set(written, 0);
    return new SpoolWriter(file, {
      grow: (bytes) => this.#resize(written, bytes),
      settle: async (sync) => {
        if (isBack) await this.#replace(written, name);
        if (sync) await this.syncNames();
      },
      discard: () => this.#remove(written),
    });
  }

  async #replace(from: string, to: string): Promise<void> {
    await this.#disk.rename(`${this.#folder}/${from}`, `${this.#folder}/${to}`);
    this.#resize(to, -(this.#sizes.get(to) ?? 0));
    this.#sizes.set(to, this.#sizes.get(from) ?? 0);
    this.#sizes.delete(from);
  }

  /** Adopts a complete body that was written elsewhere on this disk. Durable when it resolves. */
  async adopt(key: Buffer, from: string, bytes: number): Promise<void> {
    await this.#disk.rename(from, this.#path(key));
    const name = key.toString('hex');
    this.#sizes.set(name, 0);
    this.#resize(name, bytes);
    await this.syncNames();
  }

  /** Rolls back `adopt`, even that of an earlier process. False if the body is not here. */
  async giveBack(key: Buffer, to: string): Promise<boolean> {
    try {
      await this.#disk.rename(this.#path(key), to);
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return false;
      throw error;
    }
    const name = key.toString('hex');
    this.#resize(name, -this.sizeOf(key));
    this.#sizes.delete(name);
    return true;
  }

  syncNames(): Promise<void> {
    return this.#disk.syncDirectory(this.#folder);
  }

  /**
   * Yields the bytes in chunks. Throws `corrupt` if they cannot be read or, at the end, if they are
   * not what was stored.
   */
  async *read(
    key: Buffer,
    expected: { readonly size: number; readonly crc32: number },
    range: { readonly start: number; readonly end: number } = { start: 0, end: expected.size - 1 },
  ): AsyncGenerator<Buffer> {
    const file = await this.#disk.openToRead(this.#path(key));
    try {
      const whole = range.start === 0 && range.end === expected.size - 1;
      let crc = 0;
      for (let at = range.start; at <= range.end; ) {
        const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, range.end + 1 - at));
        if (!(await this.#fill(chunk, file, at))) throw damaged(key);
        if (whole) crc = crc32(chunk, crc);
        at += chunk.length;
        if (whole && at > range.end && crc !== expected.crc32) throw damaged(key);
        yield chunk;
      }
    } finally {
      await file.close();
    }
  }

  /**
   * Reads the file and computes its block checksums; undefined if its bytes are damaged or
   * unreadable.
   */
  async checksums(
    key: Buffer,
    expected: { readonly size: number; readonly crc32: number },
    onBytes: (bytes: number) => Promise<void>,
  ): Promise<Buffer | undefined> {
    const checksums = new BlockChecksums();
    try {
      for await (const chunk of this.read(key, expected)) {
        checksums.add(chunk);
        await onBytes(chunk.length);
      }
    } catch (error) {
      if (isStoreError(error, 'corrupt')) return undefined;
      throw error;
    }
    return checksums.list();
  }

  /** False if the file is too short, or a working disk fails to read the bytes. */
  async #fill(chunk: Buffer, file: DiskFile, position: number): Promise<boolean> {
    try {
      const read = () => file.readAt(chunk, position);
      return (await readFirmly(read, () => this.syncNames())) === chunk.length;
    } catch (error) {
      if (error instanceof Unreadable) return false;
      throw error;
    }
  }

  /** Bytes of the file; 0 if it is not here. */
  sizeOf(key: Buffer): number {
    return this.#sizes.get(key.toString('hex')) ?? 0;
  }

  has(key: Buffer): boolean {
    return this.#sizes.has(key.toString('hex'));
  }

  remove(key: Buffer): Promise<void> {
    return this.#remove(key.toString('hex'));
  }

  async #remove(name: string): Promise<void> {
    this.#resize(name, -(this.#sizes.get(name) ?? 0));
    this.#sizes.delete(name);
    await removeIfThere(this.#disk, `${this.#folder}/${name}`);
  }

  /** Finds the files at start and removes those without a record. */
  async recover(isKnown: (key: Buffer) => boolean): Promise<number> {
    let removed = 0;
    for (const name of await this.#disk.list(this.#folder)) {
      const key = /^[0-9a-f]{32}$/.test(name) ? Buffer.from(name, 'hex') : undefined;
      if (key && isKnown(key)) {
        this.#sizes.set(name, 0);
        this.#resize(name, await this.#sizeOnDisk(key));
      } else {
        await removeIfThere(this.#disk, `${this.#folder}/${name}`);
        removed += 1;
      }
    }
    return removed;
  }

  async #sizeOnDisk(key: Buffer): Promise<number> {
    const file = await this.#disk.openToRead(this.#path(key));
    try {
      return (await file.stat()).size;
    } finally {
      await file.close();
    }
  }

  #resize(name: string, change: number): void {
    const size = this.#sizes.get(name);
    if (size === undefined) return;
    this.#sizes.set(name, size + change);
    this.#bytes += change;
  }

  #path(key: Buffer): string {
    return `${this.#folder}/${key.toString('hex')}`;
  }
}

const CHUNK_BYTES = 256 * 1024;
const ASIDE = '.again';

interface SpoolHooks {
  readonly grow: (bytes: number) => void;
  /** Makes the name durable if `sync` is set. */
  readonly settle: (sync: boolean) => Promise<void>;
  readonly discard: () => Promise<void>;
}

/** Writes one spool file. Call `finish` or `discard` at the end. */
export class SpoolWriter {
  readonly #file: DiskFile;
  readonly #hooks: SpoolHooks;
  readonly #checksums = new BlockChecksums();
  #isOpen = true;
  size = 0;

  constructor(file: DiskFile, hooks: SpoolHooks) {
    this.#file = file;
    this.#hooks = hooks;
  }

  get crc32(): number {
    return this.#checksums.crc32;
  }

  get blocks(): Buffer {
    return this.#checksums.list();
  }

  async write(chunks: readonly Uint8Array[]): Promise<void> {
    let bytes = 0;
    for (const chunk of chunks) {
      this.#checksums.add(chunk);
      bytes += chunk.length;
    }
    this.#hooks.grow(bytes);
    await this.#file.writeAt(chunks, this.size);
    this.size += bytes;
  }

  /** Reads back the bytes written so far, for a body that turned out to be small. */
  async readBack(): Promise<Buffer> {
    const bytes = Buffer.allocUnsafe(this.size);
    if ((await this.#file.readAt(bytes, 0)) !== this.size)
      throw new Error('the spool file is short');
    return bytes;
  }

  /** Makes the file durable if `sync` is set. */
  async finish(sync: boolean): Promise<void> {
    if (sync) await this.#file.sync();
    await this.#close();
    await this.#hooks.settle(sync);
  }

  /** Also after `finish`, if the file is refused later. */
  async discard(): Promise<void> {
    await this.#close().catch(() => undefined);
    await this.#hooks.discard();
  }

  async #close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#file.close();
  }
}

function damaged(key: Buffer): StoreError {
  const name = key.toString('base64url');
  return new StoreError('corrupt', `the spooled bytes of ${name} are not those that were stored`);
}
