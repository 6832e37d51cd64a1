import { PassThrough, pipeline, Readable } from 'node:stream';
import { StoreError } from '@stevedore/staging/errors';
import type { Signal } from './downloads.js';
import { readAll } from './http/answers.js';
import type {
  ByteRange,
  FileInfo,
  FileState,
  IdPending,
  ReadOptions,
  StoredFile,
} from './types.js';

/** A file's facts; its key may be unknown. */
export type FileFacts = Omit<FileInfo, 'key'> & { readonly key?: string };

export type ReadContent = (
  range: ByteRange | undefined,
  signal: Signal,
) => Promise<Buffer | Readable>;

/** What only some files have. */
export interface MoreOfFile {
  /** The whole content; undefined if it takes time to read it. */
  readonly readNow?: (() => Buffer | undefined) | undefined;
  /** For facts without `fileId`: most readers do not ask, and it takes time to make. */
  readonly fileId?: (() => string | undefined) | undefined;
  /** The same, for `idPending`. */
  readonly idPending?: () => IdPending | undefined;
}

/** A file's facts, with methods to read it. */
export class FileHandle implements StoredFile {
  declare readonly key?: string;
  declare readonly group?: string;
  declare readonly expiresAt?: Date;
  readonly name: string;
  readonly size: number;
  readonly type: string;
  readonly crc32: number;
  readonly state: FileState;
  readonly stagedAt: Date;
  readonly #read: ReadContent;
  /** Undefined once it gave nothing: the file takes time to read. */
  #readNow: MoreOfFile['readNow'];
  #fileId: string | (() => string | undefined) | undefined;
  #idPending: IdPending | (() => IdPending | undefined) | undefined;

  constructor(facts: FileFacts, read: ReadContent, more?: MoreOfFile) {
    this.name = facts.name;
    this.size = facts.size;
    this.type = facts.type;
    this.crc32 = facts.crc32;
    this.state = facts.state;
    this.stagedAt = facts.stagedAt;
    if (facts.key !== undefined) this.key = facts.key;
    if (facts.group !== undefined) this.group = facts.group;
    if (facts.expiresAt !== undefined) this.expiresAt = facts.expiresAt;
    this.#fileId = facts.fileId ?? more?.fileId;
    this.#idPending = facts.idPending ?? more?.idPending;
    this.#read = read;
    this.#readNow = more?.readNow;
  }

  get etag(): string {
    return `"${this.crc32.toString(16).padStart(8, '0')}-${this.size.toString(16)}"`;
  }

  get fileId(): string | undefined {
    if (typeof this.#fileId === 'function') this.#fileId = this.#fileId();
    return this.#fileId;
  }

  get idPending(): IdPending | undefined {
    if (typeof this.#idPending === 'function') this.#idPending = this.#idPending();
    return this.#idPending;
  }

  contentNow(): Buffer | undefined {
    const bytes = this.#readNow?.();
    if (!bytes) this.#readNow = undefined;
    return bytes;
  }

  async content(options: ReadOptions = {}): Promise<Buffer | Readable> {
    checkRange(options.range, this.size);
    options.signal?.throwIfAborted();
    const now = options.range ? undefined : this.contentNow();
    return now ?? this.#read(options.range, options.signal);
  }

  async bytes(options?: ReadOptions): Promise<Buffer> {
    const bytes = await this.content(options);
    return Buffer.isBuffer(bytes) ? Buffer.from(bytes) : readAll(bytes);
  }

  stream(options?: ReadOptions): Readable {
    const output = new PassThrough();
    this.content(options).then(
      (bytes) => {
        if (Buffer.isBuffer(bytes)) output.end(Buffer.from(bytes));
        // A failure of either side reaches the reader through `output`.
        else pipeline(bytes, output, () => undefined);
      },
      (error) => output.destroy(error as Error),
    );
    return output;
  }

  web(options?: ReadOptions): ReadableStream<Uint8Array> {
    return Readable.toWeb(this.stream(options)) as ReadableStream<Uint8Array>;
  }
}

/** The file's facts alone. */
export function infoOf(file: StoredFile): FileInfo {
  const { name, size, type, crc32, state, stagedAt, group, expiresAt, fileId } = file;
  const { idPending } = file;
  return {
    key: file.key ?? '',
    name,
    size,
    type,
    crc32,
    state,
    stagedAt,
    ...(group === undefined ? {} : { group }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(fileId === undefined ? {} : { fileId }),
    ...(idPending === undefined ? {} : { idPending }),
  };
}

function checkRange(range: ByteRange | undefined, size: number): void {
  if (!range) return;
  const { start, end } = range;
  const whole = Number.isSafeInteger(start) && Number.isSafeInteger(end);
  if (whole && start >= 0 && start <= end && end < size) return;
  throw new StoreError(
    'range_not_satisfiable',
    `bytes ${start} to ${end} are not in a file of ${size} bytes`,
  );
}
