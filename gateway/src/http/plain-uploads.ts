import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Answer, UnsentBytes } from '@stevedore/middleware/core';
import { type HostNames, hasOneHost } from '../access/origins.js';
import type { RequestDurations } from '../observe/durations.js';
import { END, type LastLines, sendText, takesHeads } from './direct-answers.js';

/**
 * Uploads of one short body of known length to `POST /files`, past the framework, which would take
 * a quarter of their time. They are stored, checked and refused as by the route. What is anything
 * else, such as a form or a resumable upload, goes to its route.
 */
export interface PlainUploadsOptions {
  /** As the route does. */
  readonly store: (request: IncomingMessage, response: ServerResponse) => Promise<Answer>;
  readonly refuse: Refuse;
  readonly requestId: (request: IncomingMessage) => string;
  readonly durations: RequestDurations;
  readonly unsent: UnsentBytes;
  readonly lastLines: LastLines;
  /** The served host names, if not all are. */
  readonly hostNames?: HostNames | undefined;
  /** Longest body that is not streamed. */
  readonly maxBytes: number;
}

/** Answers an error of a request. */
export type Refuse = (
  error: unknown,
  request: IncomingMessage,
  response: ServerResponse,
  headers: { readonly 'x-request-id': string },
) => void;

const PATH = '/files';
/** Without parameters, and no form. */
const PLAIN_TYPE = /^(?!multipart\/)[\w.+-]+\/[\w.+-]+$/i;

export class PlainUploads {
  readonly #options: PlainUploadsOptions;
  readonly #takesHeads = takesHeads();
  #open = true;
  /** The last plain one: it is often the same. */
  #lastType = '';

  constructor(options: PlainUploadsOptions) {
    this.#options = options;
  }

  /** From now on every upload goes to its route. */
  close(): void {
    this.#open = false;
  }

  /** False if the route has to take it. */
  take(request: IncomingMessage, response: ServerResponse): boolean {
    if (request.method !== 'POST' || request.url !== PATH || !this.#isPlain(request)) return false;
    void this.#answer(request, response);
    return true;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { store, refuse, requestId, durations } = this.#options;
    const began = performance.now();
    const id = requestId(request);
    try {
      this.#send(request, response, id, await store(request, response));
    } catch (error) {
      refuse(error, request, response, { 'x-request-id': id });
    }
    durations.observe('POST', PATH, response.statusCode, (performance.now() - began) / 1000);
  }

  #send(request: IncomingMessage, response: ServerResponse, id: string, answer: Answer): void {
    const { lastLines, unsent } = this.#options;
    const { socket, shouldKeepAlive } = response;
    const isPlain = this.#takesHeads && shouldKeepAlive && request.httpVersion === '1.1';
    const text = String(answer.content);
    if (isPlain && socket?.writable) {
      const last = `${lastLines.at(Date.now())}${id}${END}`;
      sendText(response, socket, answer.status, `${headOf(answer)}${last}${text}`);
    } else {
      response.writeHead(answer.status, { ...answer.headers, 'x-request-id': id });
      response.end(text);
    }
    unsent.watch(response, text.length);
  }

  #isPlain({ headers, rawHeaders }: IncomingMessage): boolean {
    const { host = '', 'content-type': type, 'content-length': length } = headers;
    if (length === undefined || !(Number(length) <= this.#options.maxBytes)) return false;
    if (type !== undefined && !this.#isPlainType(type)) return false;
    if (headers['transfer-encoding'] !== undefined) return false;
    if (headers['tus-resumable'] !== undefined || !hasOneHost(rawHeaders)) return false;
    return this.#open && this.#options.hostNames?.has(host) !== false;
  }

  #isPlainType(type: string): boolean {
    if (type === this.#lastType) return true;
    if (!PLAIN_TYPE.test(type)) return false;
    this.#lastType = type;
    return true;
  }
}

/** All values are the gateway's own. */
function headOf({ status, headers }: Answer): string {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
  for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
  return head;
}
