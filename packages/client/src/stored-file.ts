import { PassThrough, pipeline, Readable } from 'node:stream';
import { StoreError } from '@stevedore/staging/errors';
import type { Signal } from './downloads.js';
import type { ByteRange, FileInfo, FileState, ReadOptions, StoredFile } from './types.js';

/** A file's facts; its key may be unknown. */
export type FileFacts = Omit<FileInfo, 'key'> & { readonly key?: string };

export type ReadContent = (
  range: ByteRange | undefined,
  signal: Signal,
) => Promise<Buffer | Readable>;

/** A file's facts, with methods to read it. */
export class FileHandle implements StoredFile {
  declare readonly key?: string;
  declare readonly group?: string;
  declare readonly expiresAt?: Date;
  declare readonly fileId?: string;
  readonly name: string;
  readonly size: number;
  readonly type: string;
  readonly crc32: number;
  readonly state: FileState;
  readonly stagedAt: Date;
  readonly #read: ReadContent;

  constructor(facts: FileFacts, read: ReadContent) {
    this.name = facts.name;
    this.size = facts.size;
    this.type = facts.type;
    this.crc32 = facts.crc32;
    this.state = facts.state;
    this.stagedAt = facts.stagedAt;
    if (facts.key !== undefined) this.key = facts.key;
    if (facts.group !== undefined) this.group = facts.group;
    if (facts.expiresAt !== undefined) this.expiresAt = facts.expiresAt;
    if (facts.fileId !== undefined) this.fileId = facts.fileId;
    this.#read = read;
  }

  get etag(): string {
    return `"${this.crc32.toString(16).padStart(8, '0')}-${this.size.toString(16)}"`;
  }

  async content(options: ReadOptions = {}): Promise<Buffer | Readable> {
    checkRange(options.range, this.size);
    options.signal?.throwIfAborted();
    return this.#read(options.range, options.signal);
  }

  async bytes(options?: ReadOptions): Promise<Buffer> {
    const bytes = await this.content(options);
    return Buffer.isBuffer(bytes) ? Buffer.from(bytes) : collect(bytes);
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

async function collect(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
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
