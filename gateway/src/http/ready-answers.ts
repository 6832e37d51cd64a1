import type { IncomingMessage, ServerResponse } from 'node:http';
import type { CachedFile, CachedFiles, StoredFile } from '@stevedore/client';
import { whenClosed } from '@stevedore/middleware/core';
import { LRUCache } from 'lru-cache';
import { isHost } from '../access/origins.js';
import { type DirectParts, END, headOf, sendWithHead, takesHeads } from './direct-answers.js';

/**
 * Repeats earlier answers to downloads. A request for the same URL and the whole file, while its
 * bytes are in memory, gets the headers that the route made, with a new date, request id and age.
 * It bypasses framework, routing, signature check and FileMap.
 *
 * A request that differs (a range, a condition, an API key, an origin, a body, a second host, an
 * older HTTP) goes to the route. So does every request once the file has left memory, was deleted,
 * or the URL has expired. It sends nothing that the route would not have sent.
 */

export interface ReadyAnswersOptions extends DirectParts {
  readonly files: CachedFiles;
  readonly now?: () => number;
}

/** An answer with status 200 from the route. */
export interface RouteAnswer {
  readonly key: string;
  readonly known: Pick<StoredFile, 'expiresAt'>;
  readonly route: string;
  readonly content: Buffer;
  /** Except those that belong to one request. */
  readonly headers: Readonly<Record<string, unknown>>;
  /** `Cache-Control` at a given time, if it changes. */
  readonly cacheControl: ((now: number) => string) | undefined;
  /** Unix milliseconds at which the URL expires; Infinity if it never does. */
  readonly until: number;
}

interface Ready extends Pick<RouteAnswer, 'key' | 'until' | 'cacheControl'> {
  readonly file: CachedFile;
  readonly durations: { observe(seconds: number): void };
  /** Status line and headers, except those of `#rest`. */
  readonly head: Buffer;
  /** When the file was last requested. */
  seenSecond: number;
}

const MAX_HEADS_BYTES = 8 * 2 ** 20;
const ENTRY_BYTES = 300;
/** Headers of one request, or written by the HTTP server. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'x-request-id',
  'date',
  'connection',
  'keep-alive',
]);
/** The same, and what is written anew where it changes with time. */
const TIMED: ReadonlySet<string> = new Set([...OWN_HEADERS, 'cache-control']);

export class ReadyAnswers {
  readonly #options: ReadyAnswersOptions;
  readonly #now: () => number;
  readonly #answers = new LRUCache<string, Ready>({
    maxSize: MAX_HEADS_BYTES,
    sizeCalculation: ({ head }, url) => head.length + url.length + ENTRY_BYTES,
  });
  #second = 0;
  #open = takesHeads();

  constructor(options: ReadyAnswersOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** From now on every request goes to its route. */
  close(): void {
    this.#open = false;
    this.#answers.clear();
  }

  /**
   * True if the file is in memory, so that the answer may be kept: a file that is read from
   * elsewhere may never be requested again.
   */
  mayKeep(key: string): boolean {
    return this.#options.files.has(key);
  }

  /** Keeps what a route answers, if it would answer the next request in the same way. */
  keep(request: IncomingMessage, answer: RouteAnswer): void {
    const { key, known, route, content, headers, cacheControl, until } = answer;
    if (!this.#open || !isPlain(request)) return;
    const file = this.#options.files.get(key, known);
    if (file?.bytes !== content) return;
    const head = Buffer.from(headOf(200, headers, cacheControl ? TIMED : OWN_HEADERS), 'latin1');
    const durations = this.#options.durations.series('GET', route, 200);
    const ends = Math.min(until, file.expiresAt - 1);
    const ready = { key, file, durations, head, cacheControl, until: ends, seenSecond: -1 };
    this.#answers.set(request.url ?? '', ready);
  }

  /** Answers a request as its route did before; false if the route has to answer it. */
  serve(request: IncomingMessage, response: ServerResponse): boolean {
    const url = request.url ?? '';
    const ready = this.#answers.peek(url);
    if (ready === undefined) return false;
    const { files, requestId, unsent, hostNames, lastLines } = this.#options;
    const now = this.#now();
    this.#second = Math.floor(now / 1000);
    if (now > ready.until || !this.#isThere(ready, url)) {
      this.#answers.delete(url);
      return false;
    }
    if (!isPlain(request) || !response.shouldKeepAlive) return false;
    if (hostNames?.has(request.headers.host ?? '') === false) return false;
    const { socket } = response;
    if (!socket?.writable) return false;
    const began = performance.now();
    const id = requestId(request);
    const { bytes } = ready.file;
    const age = ready.cacheControl ? `cache-control: ${ready.cacheControl(now)}\r\n` : '';
    const rest = `${age}${lastLines.at(now)}${id}${END}`;
    if (sendWithHead(response, socket, 200, [ready.head, rest], bytes)) {
      ready.durations.observe((performance.now() - began) / 1000);
    } else {
      whenClosed(response, () => ready.durations.observe((performance.now() - began) / 1000));
      unsent.watch(response, bytes.length);
    }
    files.served(ready.file);
    return true;
  }

  /** Counts answer and file as used once a second, which is enough to keep them from eviction. */
  #isThere(ready: Ready, url: string): boolean {
    const { files } = this.#options;
    if (ready.seenSecond === this.#second) return files.isCurrent(ready.file);
    ready.seenSecond = this.#second;
    this.#answers.get(url);
    return files.get(ready.key) === ready.file;
  }
}

/** Headers that may ask for something other than the whole file, or need checking. */
const ASKING: ReadonlySet<string> = new Set([
  'authorization',
  'x-api-key',
  'origin',
  'range',
  'if-none-match',
  'if-match',
  'if-modified-since',
  'if-unmodified-since',
  'content-length',
  'transfer-encoding',
  'expect',
  'upgrade',
]);
/** One bit for each length of these names: most other headers are ruled out by length alone. */
const ASKING_LENGTHS = [...ASKING].reduce((bits, { length }) => bits | (1 << length), 0);

/** A GET that asks for a file and nothing more. */
function isPlain(request: IncomingMessage): boolean {
  if (request.method !== 'GET' || request.httpVersion !== '1.1') return false;
  const { rawHeaders } = request;
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    // Longer names share the bits of shorter ones, and are compared.
    if ((ASKING_LENGTHS >> name.length) & 1 && ASKING.has(name.toLowerCase())) return false;
    if (isHost(name)) hosts += 1;
  }
  return hosts === 1;
}
