import { IncomingMessage, type Server, ServerResponse, validateHeaderValue } from 'node:http';
import { Socket } from 'node:net';
import type { CachedFile, CachedFiles } from '@stevedore/client';
import { LRUCache } from 'lru-cache';

/**
 * Answers to downloads that were given before, ready to be sent again: a request for
 * the same URL that asks for the whole of a file whose bytes are in memory gets the head
 * that the route made, with the time, the request's id and the age until which it may be
 * kept as they are now. Framework, routing, signature and FileMap are not asked again.
 *
 * What makes a request different from the one before (a range, a condition, a key, an
 * origin, a body, an older HTTP) goes to the route, and so does everything once the file
 * is no longer in memory, was deleted, or the URL's time is over. Nothing is sent that
 * the route would not have sent.
 */

export interface ReadyAnswersOptions {
  readonly files: CachedFiles;
  readonly requestId: (request: IncomingMessage) => string;
  readonly observe: (method: string, route: string, status: number, seconds: number) => void;
  readonly now?: () => number;
}

/** An answer of status 200 that the route gave. */
export interface RouteAnswer {
  readonly key: string;
  /** Pattern of the route. */
  readonly route: string;
  readonly content: Buffer;
  /** But for those that are of one request alone. */
  readonly headers: Readonly<Record<string, unknown>>;
  /** `Cache-Control` at a time, where it is not always the same. */
  readonly cacheControl: ((now: number) => string) | undefined;
  /** Unix milliseconds from which on the URL is refused; Infinity for one without end. */
  readonly until: number;
}

interface Ready extends Pick<RouteAnswer, 'key' | 'route' | 'until' | 'cacheControl'> {
  readonly file: CachedFile;
  readonly head: string;
  /** What `cacheControl` said in that second. */
  second: number;
  age: string;
}

const MAX_HEADS_BYTES = 8 * 2 ** 20;
const ENTRY_BYTES = 300;
/** Of one request, or written by the HTTP server. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'x-request-id',
  'date',
  'connection',
  'keep-alive',
]);

/** A response of Node, with the head that it is going to send. */
type WithHead = ServerResponse & { _header: string | null };

export class ReadyAnswers {
  readonly #options: ReadyAnswersOptions;
  readonly #now: () => number;
  readonly #answers = new LRUCache<string, Ready>({
    maxSize: MAX_HEADS_BYTES,
    sizeCalculation: ({ head }, url) => head.length + url.length + ENTRY_BYTES,
  });
  #second = 0;
  #date = '';
  #open = true;

  constructor(options: ReadyAnswersOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => Date.now());
  }

  /** Puts itself before the handlers of a server's requests. */
  attach(server: Server): void {
    if (!takesHeads()) return;
    const handlers = server.listeners('request') as ((
      request: IncomingMessage,
      response: ServerResponse,
    ) => void)[];
    server.removeAllListeners('request');
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      if (this.#open && this.#serve(request, response, server.keepAliveTimeout)) return;
      for (const handle of handlers) handle.call(server, request, response);
    });
  }

  /** From now on every request goes to its route. */
  close(): void {
    this.#open = false;
    this.#answers.clear();
  }

  /** Keeps what a route answers, if it would answer the next request alike. */
  keep(request: IncomingMessage, answer: RouteAnswer): void {
    const { key, route, content, headers, cacheControl, until } = answer;
    const file = this.#options.files.get(key);
    if (!this.#open || file?.bytes !== content || !isPlain(request)) return;
    const head = headOf(headers, cacheControl !== undefined);
    const ready = { key, route, file, head, cacheControl, until, second: -1, age: '' };
    this.#answers.set(request.url ?? '', ready);
  }

  #serve(request: IncomingMessage, response: ServerResponse, keepAliveMs: number): boolean {
    const url = request.url ?? '';
    const ready = this.#answers.get(url);
    if (ready === undefined) return false;
    const { files, requestId, observe } = this.#options;
    const now = this.#now();
    if (files.get(ready.key) !== ready.file || now > ready.until) {
      this.#answers.delete(url);
      return false;
    }
    if (!isPlain(request) || !response.shouldKeepAlive) return false;
    const began = performance.now();
    this.#tick(now);
    if (ready.cacheControl && ready.second !== this.#second) {
      ready.second = this.#second;
      ready.age = `cache-control: ${ready.cacheControl(now)}\r\n`;
    }
    const { bytes } = ready.file;
    (response as WithHead)._header =
      `${ready.head}${ready.age}x-request-id: ${requestId(request)}\r\nDate: ${this.#date}\r\n` +
      `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n\r\n`;
    response.statusCode = 200;
    response.on('close', () => {
      observe('GET', ready.route, 200, (performance.now() - began) / 1000);
    });
    response.end(bytes);
    files.served(ready.file);
    return true;
  }

  #tick(now: number): void {
    const second = Math.floor(now / 1000);
    if (second === this.#second) return;
    this.#second = second;
    this.#date = new Date(now).toUTCString();
  }
}

/** A GET that asks for a file and nothing more. */
function isPlain({
  method,
  httpVersionMinor,
  httpVersionMajor,
  headers,
}: IncomingMessage): boolean {
  return (
    method === 'GET' &&
    httpVersionMajor === 1 &&
    httpVersionMinor === 1 &&
    headers.authorization === undefined &&
    headers['x-api-key'] === undefined &&
    headers.origin === undefined &&
    headers.range === undefined &&
    headers['if-none-match'] === undefined &&
    headers['if-match'] === undefined &&
    headers['if-modified-since'] === undefined &&
    headers['if-unmodified-since'] === undefined &&
    headers['content-length'] === undefined &&
    headers['transfer-encoding'] === undefined &&
    headers.expect === undefined &&
    headers.upgrade === undefined
  );
}

/** Status line and headers, as the HTTP server would write them. */
function headOf(headers: Readonly<Record<string, unknown>>, isTimed: boolean): string {
  let head = 'HTTP/1.1 200 OK\r\n';
  for (const [name, value] of Object.entries(headers)) {
    if (OWN_HEADERS.has(name) || (isTimed && name === 'cache-control')) continue;
    for (const text of Array.isArray(value) ? value : [value]) {
      validateHeaderValue(name, String(text));
      head += `${name}: ${text}\r\n`;
    }
  }
  return head;
}

/**
 * Whether this Node keeps the head of a response where it can be set: it is no part of its
 * interface. Where it does not, every request goes to its route.
 */
function takesHeads(): boolean {
  const response = new ServerResponse(new IncomingMessage(new Socket())) as WithHead;
  response.writeHead(200, ['x-one', '1']);
  return response._header?.startsWith('HTTP/1.1 200 OK\r\nx-one: 1\r\n') === true;
}
