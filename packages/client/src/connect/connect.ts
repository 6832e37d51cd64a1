import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { FileMeta } from '@stevedore/staging';
import { isStoreError, StoreError } from '@stevedore/staging/errors';
import type { ConnectOptions } from '../given-options.js';
import { listQuery } from '../list/list-query.js';
import { listingOf } from '../list/pages.js';
import { flushTimeoutOf } from '../options.js';
import { interrupted } from '../put/body.js';
import { withOwnNames } from '../put/body-kinds.js';
import { checkMeta, isSync } from '../put/intake.js';
import { onceText } from '../put/once.js';
import { putFile } from '../put/put-file.js';
import { aborted } from '../read/failures.js';
import { FileHandle, type Reading } from '../read/stored-file.js';
import { askForId } from '../store/settling.js';
import type {
  Body,
  ByteRange,
  FileInfo,
  Flushed,
  FlushOptions,
  GroupListing,
  GroupOptions,
  Listing,
  ListOptions,
  PutAllOptions,
  PutFileOptions,
  PutOptions,
  PutPart,
  Readiness,
  ReadOptions,
  Receipt,
  Store,
  StoredFile,
} from '../store/types.js';
import { awayOf, groupPageOf, infoOf, pageOf, readAll } from './answers.js';
import { FormBody } from './form.js';
import { parseConnectOptions } from './options.js';
import { Requests } from './requests.js';
import { checkedType, demandSame, Repeatable, Source } from './sources.js';

/**
 * A store whose files a gateway stages, for apps without a disk of their own. It keeps only
 * connections. A file is acknowledged once the gateway has acknowledged it. Bytes are checked
 * against their CRC-32 in both directions.
 */

/** Throws StoreError `invalid_option`. Does not contact the gateway before the first call. */
export function connect(options: ConnectOptions = {}): Store {
  return new ConnectedStore(new Requests(parseConnectOptions(options)));
}

const KEY = /^[A-Za-z0-9_-]{21}[AQgw]$/;
/** Longer content is returned as a stream. */
const BUFFER_BYTES = 2 ** 20;
const DAY_MS = 24 * 3_600_000;
/** 15 digits, the most that the gateway accepts. */
const MOST_WITHIN_MS = 10 ** 15 - 1;
const DEFAULT_LIMIT = 1_000;
/** Longest description of a file in a listing: its texts, each byte escaped, and the rest. */
export const MAX_LISTED_BYTES = 12 * 1024;
/** Longest name of a group in a listing, each byte escaped. */
const MAX_LISTED_GROUP_BYTES = 2 * 1024;

/** The body of an upload request: one file, or a form. */
interface Sending extends AsyncIterable<Uint8Array> {
  readonly failure: unknown;
  readonly bytes?: Buffer | undefined;
  stop(): void;
}

export type FileToRead = Pick<FileInfo, 'key' | 'size' | 'crc32'>;

export class ConnectedStore implements Store, Reading<FileToRead> {
  readonly #requests: Requests;
  /** Puts and deletions in progress; `close` waits for them. */
  readonly #writing = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;
  #isClosing = false;

  constructor(requests: Requests) {
    this.#requests = requests;
  }

  async put(body: Body, options: PutOptions = {}): Promise<Receipt> {
    this.#throwIfClosed();
    if (options.mode === 'direct') {
      throw new StoreError('unsupported', 'connect() does not support mode direct; use open()');
    }
    const { signal, once } = options;
    isSync(options);
    const { name, type, group, expiresAt, pictureOf } = checkMeta(withOwnNames(body, options));
    // Of a derived file, the group says no more than where it is stored.
    if (!isPlain(type, group) && !pictureOf) {
      const { signal: _, group: __, once: ___, durability, mode, ...part } = options;
      const [receipt] = await this.putAll([{ body, ...part, name, type }], {
        group,
        signal,
        once,
      });
      return receipt!;
    }
    const source = new Source(body, options);
    const ownGroup = isPlain(type, group) ? group : undefined;
    const headers = headersOf({ name, type, group: ownGroup, expiresAt, pictureOf });
    const { announcedBytes } = source;
    if (announcedBytes !== undefined) headers['content-length'] = String(announcedBytes);
    const [receipt] = await this.#upload(source, headers, once, signal);
    if (!receipt) throw this.#requests.notAGateway();
    demandSame(receipt, source.sums);
    return receipt;
  }

  putFile(path: string | URL, options?: PutFileOptions): Promise<Receipt> {
    return putFile(this, path, options);
  }

  async putAll(
    parts: Iterable<PutPart> | AsyncIterable<PutPart>,
    options: PutAllOptions = {},
  ): Promise<Receipt[]> {
    this.#throwIfClosed();
    isSync(options);
    const form = await FormBody.of(parts, options);
    if (!form) return [];
    const headers = { 'content-type': form.type };
    const receipts = await this.#upload(form, headers, options.once, options.signal);
    if (receipts.length !== form.sums.length) throw this.#requests.notAGateway();
    for (const [index, receipt] of receipts.entries()) demandSame(receipt, form.sums[index]!);
    return receipts;
  }

  /**
   * If the answer is lost, sends the body again with the same Idempotency-Key, so that the gateway
   * stores it once: one in memory, and a stream of which little was read.
   */
  async #upload(
    body: Sending,
    head: Readonly<Record<string, string>>,
    once: Uint8Array | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Receipt[]> {
    const headers = { ...head, 'idempotency-key': once ? onceKey(once) : randomUUID() };
    const content = body.bytes ?? new Repeatable(body);
    const attempt = async (): Promise<Receipt[]> => {
      const request = { method: 'POST', path: '/files', headers } as const;
      try {
        const json = await this.#requests.json({ ...request, body: content }, signal);
        return (Array.isArray(json) ? json : [json]).map((each) => this.#infoIn(each));
      } catch (error) {
        // If the body itself failed, the connection's error is only a consequence.
        throw body.failure ?? error;
      }
    };
    const mayRepeat = (): boolean => !(content instanceof Repeatable) || content.mayRepeat;
    try {
      const call = { signal, attempt, mayRepeat, aborted: interrupted };
      return await this.#tracked(this.#requests.run(call));
    } catch (error) {
      body.stop();
      throw error;
    }
  }

  async findOnce(
    once: Uint8Array,
    { withinMs = DAY_MS }: { readonly withinMs?: number } = {},
  ): Promise<Receipt[]> {
    if (withinMs < 0) return [];
    const within = Math.min(Math.ceil(withinMs), MOST_WITHIN_MS);
    const path = `/files?once=${onceText(once)}&within-ms=${within}`;
    const json = await this.#asked(path, undefined);
    if (!Array.isArray(json)) throw this.#requests.notAGateway();
    return json.map((each) => this.#infoIn(each));
  }

  async get(id: string, { signal }: ReadOptions = {}): Promise<StoredFile> {
    const { key, ...facts } = this.#infoIn(await this.#asked(infoPath(id), signal));
    // Read by the given id: this gateway may not know the key of another deployment's slice.
    const { size, crc32 } = facts;
    return new FileHandle(key === '' ? facts : { key, ...facts }, { key: id, size, crc32 }, this);
  }

  async stat(id: string, { signal }: ReadOptions = {}): Promise<FileInfo> {
    return this.#infoIn(await this.#asked(infoPath(id), signal));
  }

  list(options: ListOptions = {}): Listing {
    const ask = (asked: ListOptions) => this.#page('/files', asked, MAX_LISTED_BYTES, pageOf);
    return listingOf('files', options, ask);
  }

  groups(options: GroupOptions = {}): GroupListing {
    const ask = (asked: GroupOptions) =>
      this.#page('/groups', asked, MAX_LISTED_GROUP_BYTES, groupPageOf);
    return listingOf('groups', options, ask);
  }

  async #page<Page>(
    path: string,
    options: ListOptions,
    mostBytesOfOne: number,
    pageIn: (json: unknown) => Page | undefined,
  ): Promise<Page> {
    const mostBytes = ((options.limit ?? DEFAULT_LIMIT) + 1) * mostBytesOfOne;
    const page = pageIn(await this.#asked(`${path}?${listQuery(options)}`, undefined, mostBytes));
    if (!page) throw this.#requests.notAGateway();
    return page;
  }

  async delete(id: string): Promise<void> {
    this.#throwIfClosed();
    const attempt = async (again: boolean): Promise<void> => {
      try {
        const path = isKey(id) ? pathOf(id) : `/files?id=${encodeURIComponent(id)}`;
        await this.#requests.whole({ method: 'DELETE', path }, undefined);
      } catch (error) {
        // The answer to the first attempt was lost: the file is gone, as requested.
        if (!(again && isStoreError(error, 'not_found'))) throw error;
      }
    };
    await this.#tracked(this.#requests.run({ signal: undefined, attempt, aborted }));
  }

  settled(key: string, { signal }: ReadOptions = {}): Promise<string> {
    const { closing } = this.#requests;
    const ends = signal ? AbortSignal.any([signal, closing]) : closing;
    return askForId(key, () => this.stat(key, { signal }), signal, ends);
  }

  /** Not repeated: the gateway has waited. */
  async flush(options: FlushOptions = {}): Promise<Flushed> {
    this.#throwIfClosed();
    const { signal, onlyHere } = options;
    const workMs = flushTimeoutOf(options);
    const path = `/flush?timeout-ms=${workMs}${onlyHere ? '&only-here=true' : ''}`;
    const attempt = () => this.#requests.json({ method: 'POST', path, workMs }, signal);
    const call = { signal, attempt, mayRepeat: () => false, aborted };
    return awayOf(await this.#requests.run(call));
  }

  async ready(): Promise<Readiness> {
    try {
      const question = { method: 'GET', path: '/health/ready', alsoStatus: 503 } as const;
      const json = await this.#requests.json(question);
      const { ready, accepting, trackerReachable, problems } = json as Partial<Readiness>;
      if (ready === undefined || !Array.isArray(problems)) throw this.#requests.notAGateway();
      return {
        ready,
        accepting: accepting === true,
        trackerReachable: trackerReachable === true,
        problems,
      };
    } catch (error) {
      const problems = [(error as Error).message];
      return { ready: false, accepting: false, trackerReachable: false, problems };
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#isClosing = true;
    await Promise.allSettled(this.#writing);
    await this.#requests.close();
  }

  #throwIfClosed(): void {
    if (this.#isClosing) throw new StoreError('closed', 'the store is closed');
  }

  async #tracked<Result>(call: Promise<Result>): Promise<Result> {
    this.#writing.add(call);
    try {
      return await call;
    } finally {
      this.#writing.delete(call);
    }
  }

  async #asked(path: string, signal: AbortSignal | undefined, most?: number): Promise<unknown> {
    this.#throwIfClosed();
    const attempt = () => this.#requests.json({ method: 'GET', path }, signal, most);
    return this.#requests.run({ signal, attempt, aborted });
  }

  /** Content of a file that has these facts; a stream if it is long. `key`: or any other id. */
  read(
    { key, size, crc32 }: FileToRead,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Buffer | Readable> {
    const bytes = range ? range.end - range.start + 1 : size;
    const isStream = bytes > BUFFER_BYTES;
    const headers = range ? { range: `bytes=${range.start}-${range.end}` } : {};
    const expected = { status: range ? 206 : 200, bytes, crc32: range ? undefined : crc32 };
    const request = { method: 'GET', path: pathOf(key), headers, isStream } as const;
    const broken = (error: Error): StoreError => this.#broken(error, signal);
    const attempt = async (): Promise<Buffer | Readable> => {
      const content = await this.#requests.stream(request, expected, broken, signal);
      return isStream ? content : readAll(content);
    };
    this.#throwIfClosed();
    return this.#requests.run({ signal, attempt, aborted });
  }

  #broken(error: Error, signal: AbortSignal | undefined): StoreError {
    if (isStoreError(error)) return error;
    if (signal?.aborted) return aborted(error);
    if (this.#isClosing) return new StoreError('closed', 'the store is closed', { cause: error });
    return new StoreError('storage_unavailable', `the answer was cut off: ${error.message}`, {
      cause: error,
    });
  }

  #infoIn(json: unknown): FileInfo {
    const info = infoOf(json);
    if (info) return info;
    throw this.#requests.notAGateway();
  }
}

function headersOf({ name, type, group, expiresAt, pictureOf }: FileMeta): Record<string, string> {
  const headers: Record<string, string> = {
    'content-type': checkedType(type),
    'x-filename': encodeURIComponent(name),
  };
  // Header values are bytes; the gateway decodes them as UTF-8.
  if (group !== undefined) headers['x-affinity-group'] = Buffer.from(group).toString('latin1');
  if (expiresAt !== undefined) headers['x-expires-at'] = new Date(expiresAt).toISOString();
  if (pictureOf) headers['x-picture-of'] = pictureOf.toString('base64url');
  return headers;
}

function isKey(id: string): boolean {
  return KEY.test(id);
}

function infoPath(id: string): string {
  return isKey(id) ? `/files/${id}/info` : `/files?id=${encodeURIComponent(id)}`;
}

function pathOf(id: string): string {
  return isKey(id) ? `/files/${id}` : `/${id.split('/').map(encodeURIComponent).join('/')}`;
}

/** True if headers can carry both; otherwise the file is sent as a form. */
function isPlain(type: string, group: string | undefined): boolean {
  const isOwnForm = /^\s*multipart\/form-data/i.test(type);
  return (
    !isOwnForm &&
    (group === undefined || /^[^\x00-\x20\x7f](?:[^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$/.test(group))
  );
}

/** Only keys with this prefix can be looked up; those that people choose could be guessed. */
function onceKey(once: Uint8Array): string {
  return `once-${onceText(once)}`;
}
