import { PassThrough, pipeline, Readable } from 'node:stream';
import { StoreError } from '@stevedore/staging/errors';
import { copyOf } from '@stevedore/staging/shared-memory';
import { readAll } from '../connect/answers.js';
import type {
  ByteRange,
  FileInfo,
  FileState,
  IdPending,
  ReadOptions,
  StoredFile,
} from '../store/types.js';

/** A file's facts; its key may be unknown. */
export type FileFacts = Omit<FileInfo, 'key'> & { readonly key?: string };

/** Aborts the read, if given. */
export type Signal = AbortSignal | undefined;

/** Reads files where they are. */
export interface Reading<Place> {
  /** `isOwn`: nobody else has the Buffer. */
  read(
    place: Place,
    range: ByteRange | undefined,
    signal: Signal,
    isOwn: boolean,
  ): Promise<Buffer | Readable>;
  /** The whole content; undefined if it takes time to read it. */
  readNow?(place: Place): Buffer | undefined;
  /** For facts without `fileId`: it takes time to make. */
  fileIdOf?(place: Place): string | undefined;
  /** The same, for `idPending`. */
  idPendingOf?(place: Place): IdPending | undefined;
}

/** A file's facts, with methods to read it. */
export class FileHandle<Place> implements StoredFile {
  declare readonly key?: string;
  declare readonly group?: string;
  declare readonly expiresAt?: Date;
  declare readonly pictureOf?: string;
  readonly name: string;
  readonly size: number;
  readonly type: string;
  readonly crc32: number;
  readonly state: FileState;
  readonly stagedAt: Date;
  readonly #place: Place;
  readonly #reading: Reading<Place>;
  /** False once it gave nothing: the file takes time to read. */
  #mayBeNow = true;
  #fileId: string | undefined;
  #idPending: IdPending | undefined;

  constructor(facts: FileFacts, place: Place, reading: Reading<Place>) {
    this.name = facts.name;
    this.size = facts.size;
    this.type = facts.type;
    this.crc32 = facts.crc32;
    this.state = facts.state;
    this.stagedAt = facts.stagedAt;
    if (facts.key !== undefined) this.key = facts.key;
    if (facts.group !== undefined) this.group = facts.group;
    if (facts.expiresAt !== undefined) this.expiresAt = facts.expiresAt;
    if (facts.pictureOf !== undefined) this.pictureOf = facts.pictureOf;
    this.#fileId = facts.fileId;
    this.#idPending = facts.idPending;
    this.#place = place;
    this.#reading = reading;
  }

  get place(): Place {
    return this.#place;
  }

  get etag(): string {
    return `"${this.crc32.toString(16).padStart(8, '0')}-${this.size.toString(16)}"`;
  }

  get fileId(): string | undefined {
    this.#fileId ??= this.#reading.fileIdOf?.(this.#place);
    return this.#fileId;
  }

  get idPending(): IdPending | undefined {
    this.#idPending ??= this.#reading.idPendingOf?.(this.#place);
    return this.#idPending;
  }

  contentNow(): Buffer | undefined {
    const bytes = this.#mayBeNow ? this.#reading.readNow?.(this.#place) : undefined;
    this.#mayBeNow = bytes !== undefined;
    return bytes;
  }

  content(options?: ReadOptions): Promise<Buffer | Readable> {
    return this.#read(options, false);
  }

  async bytes(options?: ReadOptions): Promise<Buffer> {
    const bytes = await this.#read(options, true);
    return Buffer.isBuffer(bytes) ? bytes : readAll(bytes);
  }

  stream(options?: ReadOptions): Readable {
    const output = new PassThrough();
    this.#read(options, true).then(
      (bytes) => {
        if (Buffer.isBuffer(bytes)) output.end(bytes);
        // A failure of either side reaches the reader through `output`.
        else pipeline(bytes, output, () => undefined);
      },
      (error) => output.destroy(error as Error),
    );
    return output;
  }

  async #read(options: ReadOptions = {}, isOwn: boolean): Promise<Buffer | Readable> {
    const { range, signal } = options;
    checkRange(range, this.size);
    signal?.throwIfAborted();
    const now = range ? undefined : this.contentNow();
    const isCopied = isOwn && (now !== undefined || range !== undefined);
    const bytes = now ?? (await this.#reading.read(this.#place, range, signal, isOwn && !isCopied));
    return isCopied && Buffer.isBuffer(bytes) ? copyOf(bytes) : bytes;
  }

  web(options?: ReadOptions): ReadableStream<Uint8Array> {
    return Readable.toWeb(this.stream(options)) as ReadableStream<Uint8Array>;
  }
}

/** The file's facts alone. */
export function infoOf(file: StoredFile): FileInfo {
  const { name, size, type, crc32, state, stagedAt, group, expiresAt, fileId } = file;
  const { idPending, pictureOf } = file;
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
    ...(pictureOf === undefined ? {} : { pictureOf }),
    ...(fileId === undefined ? {} : { fileId }),
    ...(idPending === undefined ? {} : { idPending }),
  };
}

/** Bytes that a read of this range gives. */
export function lengthOf(range: ByteRange | undefined, size: number): number {
  return range ? range.end - range.start + 1 : size;
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
