import type { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import { abortable, Gathered } from '@stevedore/async';
import { formatKey, type ReturnedFile } from '@stevedore/staging';
import { isStoreError, type StoreError } from '@stevedore/staging/errors';
import { corrupt, readAll } from '../connect/answers.js';
import { ConnectedStore, type FileToRead, MAX_LISTED_BYTES } from '../connect/connect.js';
import { refusalIn } from '../connect/errors.js';
import type { RequestLimits, Requests } from '../connect/requests.js';
import { aborted, isWithoutCopy, missing, notFound } from '../read/failures.js';
import type {
  ByteRange,
  FileInfo,
  FilePage,
  FlushOptions,
  GroupOptions,
  GroupPage,
  ListOptions,
  Receipt,
} from '../store/types.js';
import {
  type HeardFile,
  MAX_FACTS_BYTES,
  MAX_FACTS_KEYS,
  MAX_INLINE_BYTES,
  readFacts,
} from './peer-facts.js';
import { PEER_FILE_HEADER, type PeerSecret, peerRequests } from './peer-seals.js';

/**
 * Files of another gateway of the deployment, over HTTP, while they are staged there: a connected
 * store with the token of a gateway. Whole files are checked against their CRC-32, and an answer
 * counts only with the proof of a gateway of the deployment. Failures can be retried: they are
 * `storage_unavailable`, or `corrupt` for wrong bytes.
 */

export interface GatewayFilesOptions extends RequestLimits {
  readonly peers: PeerSecret;
}

/** A file's facts, with its bytes if they are few. */
export interface FoundFile {
  readonly info: FileInfo;
  readonly bytes: Buffer | undefined;
}

/** Upper limit of `smallFileLimit`: larger files are not in a container. */
const MAX_STAGED_BYTES = 16 * 2 ** 20;
/** While a question is under way, the next one gathers keys. */
const QUESTIONS = { maxKeys: MAX_FACTS_KEYS, maxCalls: 1 };

export class GatewayFiles {
  readonly url: string;
  readonly #requests: Requests;
  readonly #store: ConnectedStore;
  readonly #maxKeys: number;
  readonly #gathered: Gathered<string, HeardFile>;
  readonly #finding = new Map<string, Promise<FoundFile>>();

  constructor(url: string, { peers, ...options }: GatewayFilesOptions) {
    this.url = url;
    this.#requests = peerRequests(url, peers, options, '/peer');
    this.#store = new ConnectedStore(this.#requests);
    this.#maxKeys = options.maxRequests;
    this.#gathered = new Gathered(
      (keys) => this.#hear('/facts?', keys, MAX_INLINE_BYTES),
      QUESTIONS,
    );
  }

  /** The file's facts, with its bytes if they are few. Questions of one moment are one request. */
  find(key: string, signal: AbortSignal | undefined): Promise<FoundFile> {
    const asked = this.#finding.get(key) ?? this.#find(key);
    return this.#told(signal ? abortable(asked, signal) : asked, signal);
  }

  /** As `find`, without bytes. */
  facts(key: string, signal: AbortSignal | undefined): Promise<FoundFile> {
    return this.#findOne('/facts?', key, 0, signal);
  }

  /** A file from the copy that the gateway holds of the container of that origin. */
  findCopy(origin: number, key: string, signal: AbortSignal | undefined): Promise<FoundFile> {
    return this.#findOne(`/copies/${origin}?`, key, MAX_STAGED_BYTES, signal);
  }

  /** The file, or a range of it; a long one as a stream. */
  read(
    file: FileToRead,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Buffer | Readable> {
    return this.#told(this.#store.read(file, range, signal), signal);
  }

  /** The whole file, checked against its CRC-32. */
  async readWhole(file: FileToRead, signal: AbortSignal | undefined): Promise<Buffer> {
    const content = await this.read(file, undefined, signal);
    return Buffer.isBuffer(content) ? content : readAll(content);
  }

  /** The files of the upload with this mark; none if it was made elsewhere. */
  findOnce(mark: Uint8Array, withinMs: number): Promise<Receipt[]> {
    return this.#told(this.#store.findOnce(mark, { withinMs }));
  }

  /** A page of the files of that gateway and its workers. */
  list(options: ListOptions): Promise<FilePage> {
    return this.#told(this.#store.list(options));
  }

  groups(options: GroupOptions): Promise<GroupPage> {
    return this.#told(this.#store.groups(options));
  }

  /**
   * Has that gateway and its workers store what is staged there. Resolves with the error if it says
   * that it could not, or the call is aborted, and rejects if it does not answer.
   */
  async flush(options: FlushOptions): Promise<StoreError | undefined> {
    try {
      await this.#store.flush(options);
    } catch (error) {
      const isTold = isStoreError(error, 'aborted') || refusalIn(error)?.problem === 'not_flushed';
      if (isTold) return error as StoreError;
      throw error;
    }
    return undefined;
  }

  /** A file that it has adopted, from the gateway that came back. False if it knows that file. */
  async takeBack(
    { key, size, crc32, about, isLarge }: ReturnedFile,
    body: AsyncIterable<Uint8Array>,
  ): Promise<boolean> {
    const query = new URLSearchParams({
      about,
      size: String(size),
      crc32: String(crc32),
      large: String(isLarge),
    });
    const path = `/files/${formatKey(key)}?${query}`;
    const answer = await this.#told(this.#requests.json({ method: 'PUT', path, body }));
    return (answer as { readonly taken?: boolean }).taken === true;
  }

  delete(key: string): Promise<void> {
    return this.#told(this.#store.delete(key));
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  #find(key: string): Promise<FoundFile> {
    if (this.#finding.size >= this.#maxKeys) {
      return Promise.reject(new Error(`${this.#finding.size} keys are asked for already`));
    }
    const found = this.#gathered.ask(key).then((heard) => this.#found(key, heard));
    this.#finding.set(key, found);
    const end = (): void => void this.#finding.delete(key);
    found.then(end, end);
    return found;
  }

  async #findOne(
    path: string,
    key: string,
    mostBytes: number,
    signal: AbortSignal | undefined,
  ): Promise<FoundFile> {
    const [heard] = await this.#told(this.#hear(path, [key], mostBytes, signal), signal);
    return this.#found(key, heard);
  }

  /** Its answer about these files. */
  async #hear(
    below: string,
    keys: readonly string[],
    mostBytes: number,
    signal?: AbortSignal,
  ): Promise<HeardFile[]> {
    const path = `${below}most=${mostBytes}&keys=${keys.join()}`;
    const longest = MAX_FACTS_BYTES + mostBytes + keys.length * MAX_LISTED_BYTES;
    const { headers, content } = await this.#requests.whole(
      { method: 'GET', path },
      signal,
      longest,
    );
    return readFacts(content, keys, headers[PEER_FILE_HEADER]);
  }

  #found(key: string, heard: HeardFile | undefined): FoundFile {
    if (heard && 'info' in heard) {
      const { info, bytes } = heard;
      if (!bytes || crc32(bytes) === info.crc32) return heard;
      throw corrupt(this.#requests.url);
    }
    if (heard?.problem === 'not_found') throw notFound(key);
    if (heard?.problem === 'missing_in_fastdfs') throw missing(`the file of ${key}`);
    throw this.#requests.failure(new Error(heard?.problem));
  }

  /** Whatever it refuses may be had later, unless it proves that there is no such file. */
  async #told<Result>(answer: Promise<Result>, signal?: AbortSignal): Promise<Result> {
    try {
      return await answer;
    } catch (error) {
      if (signal?.aborted) throw aborted(error);
      if (isStoreError(error, 'aborted') || isWithoutCopy(error)) throw error;
      throw this.#requests.failure(isStoreError(error) ? new Error(error.message) : error);
    }
  }
}
