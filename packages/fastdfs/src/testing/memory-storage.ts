import { randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import {
  activeTest,
  appenderSizeField,
  appendFile,
  decodeFields,
  decodeMetadata,
  deleteFile,
  downloadFile,
  encodeFields,
  encodeHeader,
  encodeListingLine,
  encodeMetadata,
  encodePath,
  encodeTail,
  type FileName,
  fetchOnePathBinlog,
  getMetadata,
  type IpWidth,
  isExtension,
  LISTING_END_BYTES,
  modifyFile,
  normalSizeField,
  OPEN_BODY_BYTES,
  type PayloadCommand,
  ProtocolError,
  parseFileName,
  QueryInfoFlag,
  queryFileInfo,
  RANDOM_BITS,
  REPLY_COMMAND,
  regenerateAppender,
  Status,
  setMetadata,
  slaveName,
  truncateFile,
  uploadAppenderFile,
  uploadFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { type Handler, type Handlers, handle } from './memory-node.js';

/** A storage's answers, with the statuses of a stock one. */

export interface MemoryStorageOptions {
  readonly files: MemoryFiles;
  readonly group: string;
  /** Storage id, as file names carry it. */
  readonly id: string;
  readonly host: string;
  readonly width: IpWidth;
}

export function storageHandlers(options: MemoryStorageOptions): Handlers {
  const { files, group, id, host, width } = options;
  const named = (name: string): FileName => ({ group, name });
  const own = (request: FileName): string => {
    if (request.group !== group) throw new ProtocolError(`group ${request.group}`);
    return request.name;
  };
  const payloads: [number, Handler][] = [
    handlePayload(uploadFile, ({ extension }, bytes) =>
      named(files.add(bytes, extension, id, false)),
    ),
    handlePayload(uploadAppenderFile, ({ extension }, bytes) =>
      named(files.add(bytes, extension, id, true)),
    ),
    handlePayload(uploadSlaveFile, ({ master, prefix, extension }, bytes) =>
      named(files.addSlave(master, prefix, extension, bytes)),
    ),
    handlePayload(appendFile, ({ name }, bytes) => {
      const file = files.appender(name);
      file.bytes = Buffer.concat([file.bytes, bytes]);
      return undefined;
    }),
    handlePayload(modifyFile, ({ name, offset }, bytes) => {
      const file = files.appender(name);
      if (offset > file.bytes.length) throw new ProtocolError(`offset ${offset}`);
      const after = file.bytes.subarray(offset + bytes.length);
      file.bytes = Buffer.concat([file.bytes.subarray(0, offset), bytes, after]);
      return undefined;
    }),
  ];
  return new Map<number, Handler>([
    ...payloads,
    handle(activeTest, () => undefined),
    handle(truncateFile, ({ name, size }) => {
      const file = files.appender(name);
      const bytes = Buffer.alloc(size);
      file.bytes.copy(bytes);
      file.bytes = bytes;
      return undefined;
    }),
    handle(regenerateAppender, ({ name }) => named(files.regenerate(name))),
    handle(deleteFile, (request) => {
      files.remove(own(request));
      return undefined;
    }),
    handle(setMetadata, (request) => {
      const file = files.get(own(request));
      const before = request.mode === 'merge' ? file.metadata : [];
      file.metadata = new Map([...before, ...Object.entries(decodeMetadata(request.metadata))]);
      return undefined;
    }),
    handle(getMetadata, (request) => {
      const { metadata } = files.get(own(request));
      if (metadata.size === 0) throw new ProtocolError('no metadata', Status.notFound);
      return encodeMetadata(Object.fromEntries(metadata));
    }),
    handle(
      queryFileInfo,
      (request, flags) => {
        const file = files.get(own(request));
        const computed = flags & QueryInfoFlag.noCrc ? 0 : crc32(file.bytes);
        return {
          size: file.bytes.length,
          mtimeSeconds: file.mtimeSeconds,
          crc32: file.crc32 ?? computed,
          sourceAddress: host,
        };
      },
      (info) => queryFileInfo.reply.encode(info, width),
    ),
    handle(downloadFile, (request) => {
      const { bytes } = files.get(own(request));
      const { offset, length } = request;
      // Stock storages refuse an empty file too.
      if (offset >= bytes.length) throw new ProtocolError(`offset ${offset}`);
      return bytes.subarray(offset, length === 0 ? undefined : offset + length);
    }),
    [
      fetchOnePathBinlog.code,
      (body) => {
        const request = fetchOnePathBinlog.request.decode(body);
        if (request.group !== group || request.storePathIndex > 0) throw new ProtocolError('path');
        return { bytes: listing(files, id) };
      },
    ],
  ]);
}

/** All files, preceded by a length that means nothing and followed by the real one. */
function listing(files: MemoryFiles, id: string): Buffer {
  const lines = [...files.entries()].map(({ name, seconds }) => {
    const fields = parseFileName('group', name);
    const isSource = fields !== undefined && decodeFields(fields.base).source === id;
    return encodeListingLine({ seconds, name, isSource });
  });
  const text = Buffer.from(lines.join(''), 'latin1');
  const end = Buffer.alloc(LISTING_END_BYTES);
  end.writeBigInt64BE(BigInt(text.length));
  const head = { bodyBytes: OPEN_BODY_BYTES, command: REPLY_COMMAND, status: Status.ok };
  return Buffer.concat([encodeHeader(head), text, end]);
}

/** As `handle`, for a command that bytes of a file follow. */
function handlePayload<Request, Reply>(
  command: PayloadCommand<Request, Reply>,
  answer: (request: Request, bytes: Buffer) => Reply,
): [number, Handler] {
  return [
    command.code,
    (body) => {
      if (body.length < command.minHeadBytes) throw new ProtocolError('a request too short');
      const headBytes = command.headBytes(body.subarray(0, command.minHeadBytes));
      const request = command.request.decode(body.subarray(0, headBytes));
      const bytes = body.subarray(headBytes);
      if (bytes.length !== command.payloadBytes(request)) {
        throw new ProtocolError(`${bytes.length} bytes of body`);
      }
      return command.reply.encode(answer(request, bytes));
    },
  ];
}

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
