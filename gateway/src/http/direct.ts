import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { StoredFile } from '@stevedore/client';
import type { CachedFile, CachedFiles } from '@stevedore/client/internal';
import { type Answer, type UnsentBytes, whenClosed } from '@stevedore/middleware/core';
import { LRUCache } from 'lru-cache';
import { type HostNames, hasOneHost } from '../access/origins.js';
import type { RequestDurations } from '../observe/durations.js';
import { END, headOf, sendWithHead, takesHeads } from './heads.js';

/**
 * The one way past the framework, for the two most frequent requests: uploads of one short body to
 * `POST /files`, and downloads from `GET /files/KEY[/NAME]`. They are stored, read, checked, refused,
 * counted and logged as by their routes; the framework alone would take a quarter of their time.
 *
 * A download whose bytes are in memory is answered as before: with the headers that its route made,
 * and a new date, age and request id.
 *
 * It never
 * - answers a request that asks for more: a form, parameters (unless the whole URL was answered
 *   before), a range, a condition, an origin, an API key with an answer of before, a body that is
 *   long or of unknown length, several hosts or none, another version of HTTP;
 * - answers for a file that left memory, was deleted or has expired, or by a URL that has;
 * - sends what the route would not have sent, except the order of headers;
 * - sends a head of its own where this Node does not take one (see `takesHeads`).
 */
export interface DirectOptions {
  /** None: no answer is given twice. */
  readonly files: CachedFiles | undefined;
  readonly requestId: (request: IncomingMessage) => string;
  readonly durations: RequestDurations;
  readonly unsent: UnsentBytes;
  /** The served host names, if not all are. */
  readonly hostNames: HostNames | undefined;
  /** How long a connection stays open without a request. */
  readonly keepAliveMs: number;
  /** Longest body that is not streamed. */
  readonly maxBytes: number;
  readonly send: (response: ServerResponse, answer: Answer, headers: OutgoingHttpHeaders) => void;
  readonly refuse: (
    error: unknown,
    request: IncomingMessage,
    response: ServerResponse,
    headers: OutgoingHttpHeaders,
  ) => void;
  /** Called for each answer once it is sent; undefined if no request is logged. */
  readonly log:
    | ((request: IncomingMessage, response: ServerResponse, sent: Sent) => void)
    | undefined;
  readonly now?: () => number;
}

export interface Sent {
  readonly id: string;
  readonly ms: number;
}

/** What the routes do; requests without a call go to their route. */
export interface DirectCalls {
  readonly store?: (request: IncomingMessage, response: ServerResponse) => Promise<Answer>;
  readonly read?: (request: IncomingMessage, key: string, route: string) => Promise<Answer>;
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

export const UPLOADS = '/files';
export const FILE = '/files/:key';
/** The name is for people and for `Save as`; the key alone identifies the file. */
export const NAMED_FILE = '/files/:key/:filename';

const KEY_START = '/files/'.length;
const KEY_END = KEY_START + 22;
/** A name that needs no decoding, and is none of the facts' path. */
const PLAIN_FILE = /^\/files\/[\w-]{22}(?:\/(?!info$)[\w.~-]{1,255})?$/;
/** Without parameters, and no form. */
const PLAIN_TYPE = /^(?!multipart\/)[\w.+-]+\/[\w.+-]+$/i;

interface Ready extends Pick<RouteAnswer, 'key' | 'until' | 'cacheControl'> {
  readonly file: CachedFile;
  readonly durations: { observe(seconds: number): void };
  /** Status line and headers, except those of one request. */
  readonly head: Buffer;
  /** When the file was last requested. */
  seenSecond: number;
}

/** Of the memory for files: an answer of a file of 20 KB takes a twentieth of it. */
const ANSWERS_SHARE = 1 / 20;
const LEAST_ANSWERS_BYTES = 8 * 2 ** 20;
const MOST_ANSWERS_BYTES = 32 * 2 ** 20;
const ENTRY_BYTES = 500;
/** Headers of one request, or written by the HTTP server. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'x-request-id',
  'date',
  'connection',
  'keep-alive',
]);
/** The same, and what is written anew where it changes with time. */
const TIMED: ReadonlySet<string> = new Set([...OWN_HEADERS, 'cache-control']);

export class Direct {
  readonly #options: DirectOptions;
  readonly #now: () => number;
  readonly #takesHeads = takesHeads();
  readonly #keepAlive: string;
  readonly #answers: LRUCache<string, Ready>;
  #calls: DirectCalls = {};
  #isOpen = true;
  #second = 0;
  #lastLines = '';

  constructor(options: DirectOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    const seconds = Math.floor(options.keepAliveMs / 1000);
    this.#answers = new LRUCache({
      maxSize: answersBytes(options.files?.maxBytes ?? 0),
      sizeCalculation: ({ head }, url) => head.length + url.length + ENTRY_BYTES,
    });
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${seconds}`;
  }

  answerWith(calls: DirectCalls): void {
    this.#calls = calls;
  }

  /** From now on every request goes to its route. */
  close(): void {
    this.#isOpen = false;
    this.#answers.clear();
  }

  /** Answers the request; false if its route has to. */
  take(request: IncomingMessage, response: ServerResponse): boolean {
    const { method, url = '' } = request;
    if (!this.#isOpen) return false;
    const { read, store } = this.#calls;
    if (method === 'POST' && url === UPLOADS && store && this.#isUpload(request)) {
      const began = performance.now();
      void this.#answer(request, response, store(request, response), UPLOADS, began);
      return true;
    }
    if (method !== 'GET') return false;
    const ready = this.#readyFor(url);
    const isPlain = read !== undefined && PLAIN_FILE.test(url);
    if (!ready && !isPlain) return false;
    const asked = look(request);
    if (asked.hosts > 1 || asked.hasBody || !this.#serves(asked.host)) return false;
    if (ready && !asked.isSpecial && this.#repeat(ready, request, response)) return true;
    if (!isPlain) return false;
    expectNoBody(request);
    const began = performance.now();
    const route = url.length === KEY_END ? FILE : NAMED_FILE;
    const answer = read(request, url.slice(KEY_START, KEY_END), route);
    void this.#answer(request, response, answer, route, began);
    return true;
  }

  /**
   * True if the file is in memory, so that its answer may be kept: a file that is read from
   * elsewhere may never be requested again.
   */
  mayKeep(key: string): boolean {
    return this.#options.files?.has(key) === true;
  }

  /** Keeps what a route answers, if it would answer the next request in the same way. */
  keep(request: IncomingMessage, answer: RouteAnswer): void {
    const { key, known, route, content, headers, cacheControl, until } = answer;
    if (!this.#isOpen || !this.#takesHeads || request.method !== 'GET') return;
    if (look(request).isSpecial) return;
    const file = this.#options.files?.get(key, known);
    if (file?.bytes !== content) return;
    const head = Buffer.from(headOf(200, headers, cacheControl ? TIMED : OWN_HEADERS), 'latin1');
    const durations = this.#options.durations.series('GET', route, 200);
    const ends = Math.min(until, file.expiresAt - 1);
    const ready = { key, file, durations, head, cacheControl, until: ends, seenSecond: -1 };
    this.#answers.set(request.url ?? '', ready);
  }

  /** What was answered before; counted as used once a second, which is enough to keep it. */
  #readyFor(url: string): Ready | undefined {
    const ready = this.#answers.peek(url);
    const { files } = this.#options;
    if (ready === undefined || files === undefined) return undefined;
    const now = this.#now();
    const second = Math.floor(now / 1000);
    let isThere = now <= ready.until;
    if (isThere && ready.seenSecond === second) {
      isThere = files.isCurrent(ready.file);
    } else if (isThere) {
      ready.seenSecond = second;
      this.#answers.get(url);
      isThere = files.get(ready.key) === ready.file;
    }
    if (isThere) return ready;
    this.#answers.delete(url);
    return undefined;
  }

  /** False if the connection ends with the answer. */
  #repeat(ready: Ready, request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = response;
    if (!response.shouldKeepAlive || !socket?.writable) return false;
    expectNoBody(request);
    const began = performance.now();
    const { files, requestId, unsent, log } = this.#options;
    const id = requestId(request);
    const { bytes } = ready.file;
    const now = this.#now();
    const age = ready.cacheControl ? `cache-control: ${ready.cacheControl(now)}\r\n` : '';
    const rest = `${age}${this.#linesAt(now)}${id}${END}`;
    const done = (): void => {
      const ms = performance.now() - began;
      ready.durations.observe(ms / 1000);
      log?.(request, response, { id, ms });
    };
    if (sendWithHead(response, socket, 200, [ready.head, rest], bytes)) {
      done();
    } else {
      whenClosed(response, done);
      unsent.watch(response, bytes.length);
    }
    files?.served(ready.file);
    return true;
  }

  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    answer: Promise<Answer>,
    route: string,
    began: number,
  ): Promise<void> {
    const { refuse, requestId, durations, log } = this.#options;
    const id = requestId(request);
    let isSent = false;
    try {
      isSent = this.#send(request, response, id, await answer);
    } catch (error) {
      refuse(error, request, response, { 'x-request-id': id });
    }
    if (!isSent) await new Promise<void>((resolve) => whenClosed(response, resolve));
    const ms = performance.now() - began;
    durations.observe(request.method ?? '', route, response.statusCode, ms / 1000);
    log?.(request, response, { id, ms });
  }

  /** False if the system has not accepted all of it yet. */
  #send(request: IncomingMessage, response: ServerResponse, id: string, answer: Answer): boolean {
    const { unsent, send } = this.#options;
    const { status, headers, content } = answer;
    const { socket, shouldKeepAlive } = response;
    const isShort = typeof content === 'string' || Buffer.isBuffer(content);
    const isPlain = this.#takesHeads && shouldKeepAlive && request.httpVersion === '1.1';
    if (!isPlain || !isShort || !socket?.writable) {
      send(response, answer, { 'x-request-id': id });
      return false;
    }
    const head = `${headOf(status, headers)}${this.#linesAt(this.#now())}${id}${END}`;
    const isTaken = sendWithHead(response, socket, status, [head], content);
    if (!isTaken) unsent.watch(response, content.length);
    return isTaken;
  }

  /** The last headers of an answer, up to the value of the very last, which is the request's id. */
  #linesAt(now: number): string {
    const second = Math.floor(now / 1000);
    if (second !== this.#second) {
      this.#second = second;
      const date = new Date(now).toUTCString();
      this.#lastLines = `Date: ${date}\r\n${this.#keepAlive}\r\nx-request-id: `;
    }
    return this.#lastLines;
  }

  #serves(host: string): boolean {
    return this.#options.hostNames?.has(host) !== false;
  }

  #isUpload({ headers, rawHeaders }: IncomingMessage): boolean {
    const { host = '', 'content-type': type, 'content-length': length } = headers;
    if (!(Number(length) <= this.#options.maxBytes) || !hasOneHost(rawHeaders)) return false;
    if (type !== undefined && !PLAIN_TYPE.test(type)) return false;
    if (headers['transfer-encoding'] !== undefined) return false;
    return headers['tus-resumable'] === undefined && this.#serves(host);
  }
}

/** For the answers to files of which so many bytes are in memory. */
function answersBytes(filesBytes: number): number {
  const wanted = Math.floor(filesBytes * ANSWERS_SHARE);
  return Math.min(Math.max(wanted, LEAST_ANSWERS_BYTES), MOST_ANSWERS_BYTES);
}

/**
 * Node ends and destroys the stream of a body that nobody has read, in five steps: a tenth of such an
 * answer's CPU. One that was asked for bytes, and has none, is left as it is.
 */
function expectNoBody(request: IncomingMessage): void {
  request.read(0);
}

/** Headers that may ask for something other than the whole file, or need checking. */
const SPECIAL: ReadonlySet<string> = new Set([
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
const OF_BODIES: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding']);
/** One bit for each length of these names: most other headers are ruled out by length alone. */
const LENGTHS = [...SPECIAL, 'host'].reduce((bits, { length }) => bits | (1 << length), 0);

interface Asked {
  readonly host: string;
  readonly hosts: number;
  readonly hasBody: boolean;
  /** True unless it asks for the whole file in HTTP/1.1, and needs no check. */
  readonly isSpecial: boolean;
}

function look({ rawHeaders, httpVersion }: IncomingMessage): Asked {
  let host = '';
  let hosts = 0;
  let hasBody = false;
  let isSpecial = httpVersion !== '1.1';
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const { length } = rawHeaders[index] ?? '';
    // Longer names share the bits of shorter ones, and are compared.
    if (((LENGTHS >> length) & 1) === 0) continue;
    const name = (rawHeaders[index] ?? '').toLowerCase();
    if (name === 'host') {
      host = rawHeaders[index + 1] ?? '';
      hosts += 1;
    } else if (SPECIAL.has(name)) {
      isSpecial = true;
      hasBody ||= OF_BODIES.has(name);
    }
  }
  return { host, hosts, hasBody, isSpecial: isSpecial || hosts !== 1 };
}
