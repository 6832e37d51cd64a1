import { AsyncLocalStorage } from 'node:async_hooks';
import type { Readable } from 'node:stream';
import type { Receipt, UnfinishedUpload, UnfinishedUploads } from '@stevedore/client';
import { isStoreError } from '@stevedore/client/connect';
import { DataStore, ERRORS, Upload } from '@tus/server';
import { ProblemError } from '../problems.js';
import type { DigestCheck } from '../upload/digests.js';
import type { UploadQuota } from '../upload/request-body.js';
import type { Begin } from './messages.js';
import { type Note, noteOf } from './request.js';

/**
 * Stores the uploads of `@tus/server` as unfinished uploads of the store. The library passes on
 * only what the protocol needs of a request; the rest travels in `underWay`.
 */

/** One request. */
export interface UnderWay {
  readonly checksum: DigestCheck | undefined;
  /** For a request that creates an upload. */
  readonly begin?: Begin | undefined;
  readonly quota?: UploadQuota | undefined;
  readonly visibleScope?: string | undefined;
  /** `Content-Length`. */
  readonly expectedBytes: number | undefined;
  /** The upload, once it exists. */
  id?: string | undefined;
  /** The first failure: the library reports less. */
  failure?: unknown;
  /** The library does not wait for it if the client leaves. */
  writing?: Promise<unknown>;
  /** Bytes that were added. */
  receivedBytes?: number;
  receipt?: Receipt;
}

export const underWay = new AsyncLocalStorage<UnderWay>();

export function thisRequest(): UnderWay {
  const request = underWay.getStore();
  if (!request) throw new Error('no request is under way');
  return request;
}

export const EXTENSIONS = [
  'creation',
  'creation-with-upload',
  'creation-defer-length',
  'termination',
  'expiration',
  'checksum',
  'concatenation',
];

export class TusStore extends DataStore {
  override readonly extensions = EXTENSIONS;
  readonly #uploads: UnfinishedUploads;
  /** A file whose upload was already finished. */
  readonly #finished: (id: string) => Promise<number | undefined>;

  constructor(uploads: UnfinishedUploads, finished: (id: string) => Promise<number | undefined>) {
    super();
    this.#uploads = uploads;
    this.#finished = finished;
  }

  override async create(upload: Upload): Promise<Upload> {
    return upload;
  }

  override async getUpload(id: string): Promise<Upload> {
    const found = await this.#uploads.settled(id);
    if (found) return asUpload(found);
    const size = await this.#finished(id);
    if (size === undefined) throw ERRORS.FILE_NOT_FOUND;
    return new Upload({ id, size, offset: size });
  }

  override write(stream: Readable, id: string, offset: number): Promise<number> {
    const writing = this.#append(stream, id, offset);
    thisRequest().writing = writing;
    return writing;
  }

  async #append(stream: Readable, id: string, offset: number): Promise<number> {
    const request = thisRequest();
    const found = this.#uploads.find(id);
    if (!found) return this.#sentAgain(stream, id, offset);
    const { maxBytes } = noteOf(found);
    const { checksum } = request;
    const check = checksum && (() => demand(checksum.problem()));
    // Another request may be adding bytes until this one has its turn.
    let hasBegun = false;
    const body = counted(stream, maxBytes - offset, noteOf(found), request, () => {
      hasBegun = true;
    });
    try {
      return await this.#uploads.append(id, offset, body, { check, transfer: true });
    } catch (error) {
      request.failure ??= (isStoreError(error, 'aborted') && error.cause) || error;
      throw error;
    } finally {
      if (hasBegun) request.receivedBytes = (this.#uploads.find(id)?.offset ?? offset) - offset;
    }
  }

  /** Some clients end an upload with a request without bytes, of an empty file the only one. */
  async #sentAgain(stream: Readable, id: string, offset: number): Promise<number> {
    if ((await this.#finished(id)) !== offset) throw ERRORS.FILE_NOT_FOUND;
    // The server lets none pass.
    for await (const _ of stream);
    return offset;
  }

  override declareUploadLength(id: string, size: number): Promise<void> {
    return this.#uploads.declareSize(id, size);
  }

  override remove(id: string): Promise<void> {
    return this.#uploads.remove(id);
  }

  override getExpiration(): number {
    return this.#uploads.maxAgeMs;
  }
}

async function* counted(
  stream: Readable,
  bytes: number,
  note: Note,
  { checksum, quota, expectedBytes }: UnderWay,
  onBegin: () => void,
): AsyncGenerator<Buffer> {
  onBegin();
  let left = bytes;
  // Destroying the stream here would end the request before its error is known.
  for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
    left -= chunk.length;
    if (left < 0) throw tooLong(note);
    await quota?.take(chunk.length, expectedBytes);
    checksum?.update(chunk);
    yield chunk;
  }
}

function asUpload(found: UnfinishedUpload): Upload {
  const { id, offset, size, createdAt } = found;
  return new Upload({
    id,
    offset,
    creation_date: createdAt.toISOString(),
    ...(size === undefined ? {} : { size }),
  });
}

export function tooLong({ maxBytes }: Note): ProblemError {
  return new ProblemError('too_large', `The upload is longer than ${maxBytes} bytes.`);
}

function demand(problem: ProblemError | undefined): void {
  if (problem) throw problem;
}
