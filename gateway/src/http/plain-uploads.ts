import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Answer } from '@stevedore/middleware/core';
import { hasOneHost } from '../access/origins.js';
import { type DirectParts, END, sendText, takesHeads } from './direct-answers.js';

/**
 * Uploads of one short body of known length to `POST /files`, past the framework, which would take
 * a quarter of their time. They are stored, checked and refused as by the route. What is anything
 * else, such as a form or a resumable upload, goes to its route.
 */
export interface PlainUploadsOptions extends DirectParts {
  /** As the route does. */
  readonly store: (request: IncomingMessage, response: ServerResponse) => Promise<Answer>;
  readonly refuse: Refuse;
  /** Longest body that is not streamed. */
  readonly maxBytes: number;
}

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

  constructor(options: PlainUploadsOptions) {
    this.#options = options;
  }

  /** From now on every upload goes to its route. */
  close(): void {
    this.#open = false;
  }

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
    if (type !== undefined && !PLAIN_TYPE.test(type)) return false;
    if (headers['transfer-encoding'] !== undefined) return false;
    if (headers['tus-resumable'] !== undefined || !hasOneHost(rawHeaders)) return false;
    return this.#open && this.#options.hostNames?.has(host) !== false;
  }
}

/** All values are the gateway's own. */
function headOf({ status, headers }: Answer): string {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
  for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
  return head;
}
