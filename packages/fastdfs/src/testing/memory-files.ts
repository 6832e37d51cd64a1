import { randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import {
  appenderSizeField,
  decodeFields,
  encodeFields,
  encodePath,
  encodeTail,
  isExtension,
  normalSizeField,
  ProtocolError,
  RANDOM_BITS,
  Status,
  slaveName,
} from '@stevedore/protocol';

/**
 * The files of a memory cluster, by name, the same for each of its storages. Files of
 * the same bytes share them, so that a long load of a few bodies does not fill memory;
 * no buffer is ever changed, only replaced.
 */

export interface MemoryFile {
  bytes: Buffer;
  readonly appender: boolean;
  /** CRC-32 that the name carries; undefined where it has to be computed. */
  readonly crc32: number | undefined;
  readonly mtimeSeconds: number;
  metadata: Map<string, string>;
}

const MAX_SHARED_BODIES = 4_096;

export class MemoryFiles {
  readonly #files = new Map<string, MemoryFile>();
  /** The last body kept with a CRC-32; a few at most. */
  readonly #bodies = new Map<number, Buffer>();

  get size(): number {
    return this.#files.size;
  }

  /** Names without the group. */
  names(): string[] {
    return [...this.#files.keys()];
  }

  /** Name and time of each file, oldest first. */
  *entries(): Generator<{ readonly name: string; readonly seconds: number }> {
    for (const [name, { mtimeSeconds }] of this.#files) yield { name, seconds: mtimeSeconds };
  }

  get(name: string): MemoryFile {
    const file = this.#files.get(name);
    if (!file) throw new ProtocolError(name, Status.notFound);
    return file;
  }

  appender(name: string): MemoryFile {
    const file = this.get(name);
    if (!file.appender) throw new ProtocolError(`${name} is no appender`);
    return file;
  }

  /** Stores a file and answers its name. */
  add(bytes: Buffer, extension: string, source: string, appender: boolean): string {
    if (!isExtension(extension)) throw new ProtocolError(`extension "${extension}"`);
    return this.#store(bytes, (fields) => encodeTail(extension, fields), source, appender);
  }

  addSlave(master: string, prefix: string, extension: string, bytes: Buffer): string {
    this.get(master);
    if (prefix === '') throw new ProtocolError('a slave needs a prefix');
    const name = slaveName(master, prefix, extension);
    if (this.#files.has(name)) throw new ProtocolError(name, Status.exists);
    this.#files.set(name, newFile(this.#own(bytes, crc32(bytes)), false, undefined));
    return name;
  }

  /** Makes an appender a normal file; answers its new name. */
  regenerate(name: string): string {
    const { bytes, metadata } = this.appender(name);
    const tail = name.slice(-7);
    const { source } = decodeFields(name.slice(name.lastIndexOf('/') + 1));
    const renamed = this.#store(bytes, () => tail, source, false);
    this.get(renamed).metadata = metadata;
    this.#files.delete(name);
    return renamed;
  }

  remove(name: string): void {
    this.get(name);
    this.#files.delete(name);
  }

  #store(
    bytes: Buffer,
    tail: (digits: string) => string,
    source: string,
    appender: boolean,
  ): string {
    const random = randomInt(2 ** RANDOM_BITS);
    const crc = crc32(bytes);
    const sizeField = appender ? appenderSizeField(random) : normalSizeField(bytes.length, random);
    const createdAtSeconds = nowSeconds();
    const fields = encodeFields({ source, createdAtSeconds, sizeField, crc32: crc });
    const digits = String(randomInt(10 ** 7)).padStart(7, '0');
    const name = `${encodePath(0, random & 0xff, (random >> 8) & 0xff)}${fields}${tail(digits)}`;
    if (this.#files.has(name)) return this.#store(bytes, tail, source, appender);
    this.#files.set(name, newFile(this.#own(bytes, crc), appender, appender ? undefined : crc));
    return name;
  }

  /** The bytes for keeping: those given are a part of what was received. */
  #own(bytes: Buffer, crc: number): Buffer {
    const kept = this.#bodies.get(crc);
    if (kept?.equals(bytes)) return kept;
    const own = Buffer.from(bytes);
    if (this.#bodies.size >= MAX_SHARED_BODIES) this.#bodies.clear();
    this.#bodies.set(crc, own);
    return own;
  }
}

function newFile(bytes: Buffer, appender: boolean, crc: number | undefined): MemoryFile {
  return { bytes, appender, crc32: crc, mtimeSeconds: nowSeconds(), metadata: new Map() };
}

function nowSeconds(): number {
  return Math.floor(Date.now() / 1000);
}
