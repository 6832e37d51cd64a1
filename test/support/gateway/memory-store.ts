import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { crc32 } from 'node:zlib';
import { FileCache } from '@stevedore/cache';
import type {
  Body,
  FileInfo,
  FileLocation,
  FileStore,
  FileStoreEvents,
  Flushed,
  GroupListing,
  Listing,
  PutAllOptions,
  PutFileOptions,
  PutOptions,
  PutPart,
  Readiness,
  ReadOptions,
  Receipt,
  StorageMember,
  StoredFile,
  StoreStats,
} from '@stevedore/client';
import { StoreError } from '@stevedore/staging';

/**
 * A FileStore in memory: the contract without a disk. It counts what is under
 * way and keeps nothing of what failed, so that a test can look.
 */

interface Entry {
  readonly info: FileInfo;
  readonly bytes: Buffer;
  /** The mark of the upload that it came with. */
  readonly once?: string;
  /** Of a form: its place there, and the number of files. */
  readonly place?: number;
  readonly count?: number;
}

const DELETED: Receipt = {
  ...{ key: '', name: '', size: 0, type: '', crc32: 0, state: 'deleted' },
  stagedAt: new Date(0),
};

/** Longer files come as streams, as from the real store. */
const BUFFER_BYTES = 2 ** 16;

export class MemoryStore extends EventEmitter<FileStoreEvents> implements FileStore {
  readonly files = new Map<string, Entry>();
  readonly byFileId = new Map<string, string>();
  /** What was asked for by id, in order. */
  readonly asked: string[] = [];
  /** What each `put` asked for. */
  readonly durabilities: (string | undefined)[] = [];
  uploadsInFlight = 0;
  readonly trackers: readonly string[] = [];
  aborted = 0;
  received = 0;
  readiness: Readiness = { ready: true, accepting: true, trackerReachable: true, problems: [] };
  members: readonly StorageMember[] = [];
  /** Thrown by the next calls, while set. */
  failure: Error | undefined;
  /** Held by `put` before it takes a body, while set. */
  gate: Promise<void> | undefined;

  async putFile(path: string | URL, options: PutFileOptions = {}): Promise<Receipt> {
    return this.put(await readFile(path), options);
  }

  async put(body: Body, options: PutOptions = {}): Promise<Receipt> {
    return this.#upload(options.signal, async () => {
      if (this.gate) await this.gate;
      const entry = await this.#take(body, options, options.group);
      this.durabilities.push(options.durability);
      return this.#keep({ ...entry, ...markOf(options.once) });
    });
  }

  async putAll(
    parts: Iterable<PutPart> | AsyncIterable<PutPart>,
    options: PutAllOptions = {},
  ): Promise<Receipt[]> {
    return this.#upload(options.signal, async () => {
      const entries: Entry[] = [];
      for await (const { body, ...rest } of parts) {
        entries.push(await this.#take(body, rest, undefined));
      }
      const group = typeof options.group === 'function' ? options.group() : options.group;
      return entries.map(({ info, bytes }, place) =>
        this.#keep({
          bytes,
          info: { ...info, ...(group === undefined ? {} : { group }) },
          ...markOf(options.once),
          ...{ place, count: entries.length },
        }),
      );
    });
  }

  async findOnce(once: Uint8Array): Promise<Receipt[]> {
    const mark = Buffer.from(once).toString('hex');
    const left = [...this.files.values()].filter((entry) => entry.once === mark);
    const all = new Array<Receipt>(left[0]?.count ?? left.length).fill(DELETED);
    for (const [index, { place = index, info }] of left.entries()) all[place] = info;
    return all;
  }

  async get(id: string): Promise<StoredFile> {
    this.asked.push(id);
    const { info, bytes } = this.#find(id);
    const content = async ({ range }: ReadOptions = {}): Promise<Buffer | Readable> => {
      if (this.failure) throw this.failure;
      const wanted = range ? bytes.subarray(range.start, range.end + 1) : bytes;
      return wanted.length > BUFFER_BYTES ? Readable.from(slices(wanted)) : wanted;
    };
    const stream = (options?: ReadOptions): Readable =>
      Readable.from(
        (async function* () {
          const value = await content(options);
          if (Buffer.isBuffer(value)) yield value;
          else yield* value;
        })(),
      );
    return {
      ...info,
      etag: `"${info.crc32.toString(16)}-${info.size}"`,
      content,
      contentNow: () => undefined,
      stream,
      bytes: async (options) => Buffer.concat(await stream(options).toArray()),
      web: (options) => Readable.toWeb(stream(options)) as ReadableStream<Uint8Array>,
    };
  }

  list(): Listing {
    const files = [...this.files.values()].map(({ info }) => info);
    return Object.assign(Promise.resolve({ files }), {
      async *[Symbol.asyncIterator]() {
        yield* files;
      },
    });
  }

  groups(): GroupListing {
    const named = [...this.files.values()].flatMap(({ info }) => info.group ?? []);
    const groups = [...new Set(named)].sort();
    return Object.assign(Promise.resolve({ groups }), {
      async *[Symbol.asyncIterator]() {
        yield* groups;
      },
    });
  }

  async stat(id: string): Promise<FileInfo> {
    return this.#find(id).info;
  }

  async locate(id: string): Promise<FileLocation> {
    return { file: this.#find(id).info, storages: [] };
  }

  async delete(key: string): Promise<void> {
    this.files.delete(this.#find(key).info.key);
  }

  async settled(key: string): Promise<string> {
    const { fileId } = this.#find(key).info;
    if (fileId === undefined) throw new StoreError('storage_unavailable', 'nothing merges here');
    return fileId;
  }

  /** As if the file had been merged under this id. */
  settle(key: string, fileId: string): void {
    const entry = this.#find(key);
    this.files.set(key, { ...entry, info: { ...entry.info, fileId, state: 'merged' } });
    this.byFileId.set(fileId, key);
  }

  async flush(): Promise<Flushed> {
    return {};
  }

  async ready(): Promise<Readiness> {
    return this.readiness;
  }

  async cluster(): Promise<readonly StorageMember[]> {
    if (this.failure) throw this.failure;
    return this.members;
  }

  stats(): StoreStats {
    return {
      ...zeros('unfinishedUploads', 'unfinishedBytes', 'stagedBytes', 'mergedFiles', 'mergedBytes'),
      ...zeros('trunks', 'acknowledgedBytes', 'failedUploads', 'deletedFiles', 'reads'),
      ...zeros('readBytes', 'failedReads', 'missingInFastdfs', 'trunksInFlight', 'containerBytes'),
      ...zeros('containerLimitBytes', 'derivedFiles', 'derivedBytes'),
      ...zeros('largeFilesInFlight', 'sendRetries', 'unpackableFiles', 'unconfirmedTrunks'),
      stagedFiles: this.files.size,
      uploadsInFlight: this.uploadsInFlight,
      acknowledgedFiles: this.files.size,
      orphans: zeros('found', 'adopted', 'deleted', 'openPlans'),
      damage: zeros('found', 'repaired', 'quarantined'),
      scrub: zeros('walks', 'files', 'bytes'),
      room: {
        ...zeros('usedBytes', 'limitBytes', 'resumeBytes', 'freeBytes', 'minFreeBytes'),
        full: undefined,
      },
      cache: new FileCache({ maxBytes: 0 }).stats(),
      connections: {
        ...zeros('open', 'idle', 'leased', 'queued'),
        ...zeros('requests', 'failedRequests', 'repeatedRequests'),
      },
    };
  }

  async close(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #upload<Result>(
    signal: AbortSignal | undefined,
    run: () => Promise<Result>,
  ): Promise<Result> {
    if (this.failure) throw this.failure;
    this.uploadsInFlight += 1;
    let onAbort = (): void => {};
    const aborted = new Promise<never>((_, reject) => {
      onAbort = () => {
        this.aborted += 1;
        reject(new StoreError('aborted', 'the upload was aborted'));
      };
    });
    aborted.catch(() => {});
    signal?.addEventListener('abort', onAbort, { once: true });
    const running = run();
    running.catch(() => {});
    try {
      return await Promise.race([running, aborted]);
    } finally {
      signal?.removeEventListener('abort', onAbort);
      this.uploadsInFlight -= 1;
    }
  }

  async #take(body: Body, options: PutOptions, group: string | undefined): Promise<Entry> {
    const { maxBytes = Number.POSITIVE_INFINITY } = options;
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of iterate(body)) {
      size += chunk.length;
      this.received += chunk.length;
      if (size > maxBytes) throw new StoreError('too_large', `longer than ${maxBytes} bytes`);
      chunks.push(chunk);
    }
    if (options.size !== undefined && options.size !== size) {
      throw new StoreError('length_mismatch', `${size} bytes came instead of ${options.size}`);
    }
    const bytes = Buffer.concat(chunks);
    return {
      bytes,
      info: {
        // A key begins with the time, so never with a dash.
        key: Buffer.concat([Buffer.of(1), randomBytes(15)]).toString('base64url'),
        name: options.name ?? '',
        type: options.type ?? 'application/octet-stream',
        size,
        crc32: crc32(bytes),
        state: 'staged',
        stagedAt: new Date('2026-01-02T03:04:05.678Z'),
        ...(group === undefined ? {} : { group }),
        ...(options.expiresAt === undefined ? {} : { expiresAt: options.expiresAt }),
      },
    };
  }

  #keep(entry: Entry): Receipt {
    this.files.set(entry.info.key, entry);
    return entry.info;
  }

  #find(id: string): Entry {
    if (this.failure) throw this.failure;
    const entry = this.files.get(this.byFileId.get(id) ?? id);
    if (!entry) throw new StoreError('not_found', `there is no file ${id}`);
    return entry;
  }
}

async function* iterate(body: Body): AsyncGenerator<Uint8Array> {
  if (typeof body === 'string') yield Buffer.from(body);
  else if (body instanceof Uint8Array) yield body;
  else if (body instanceof ArrayBuffer) yield new Uint8Array(body);
  else if (body instanceof Blob) yield new Uint8Array(await body.arrayBuffer());
  else yield* body as AsyncIterable<Uint8Array>;
}

function* slices(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += BUFFER_BYTES) {
    yield bytes.subarray(at, at + BUFFER_BYTES);
  }
}

function markOf(once: Uint8Array | undefined): { readonly once?: string } {
  return once === undefined ? {} : { once: Buffer.from(once).toString('hex') };
}

function zeros<Name extends string>(...names: Name[]): Record<Name, number> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>;
}
