import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Answer, whenClosed } from '@stevedore/middleware/core';
import { hasOneHost } from '../access/origins.js';
import {
  type DirectParts,
  END,
  headOf,
  sendText,
  sendWithHead,
  takesHeads,
} from './direct-answers.js';

/**
 * Answers the two most frequent requests past the framework, which would take a quarter of their
 * time: uploads of one short body of known length to `POST /files`, and downloads from
 * `GET /files/KEY[/NAME]` without parameters. They are stored, read, checked and refused as by their
 * routes. Anything else, such as a form, a resumable upload or a signed URL, goes to its route.
 */
export interface PlainRequestsOptions extends DirectParts {
  /** As the route does. */
  readonly store: (request: IncomingMessage, response: ServerResponse) => Promise<Answer>;
  /** As the route does; none: reads go to their route. */
  readonly read:
    | ((request: IncomingMessage, key: string, route: string) => Promise<Answer>)
    | undefined;
  readonly send: (
    response: ServerResponse,
    answer: Answer,
    headers: { readonly 'x-request-id': string },
  ) => void;
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

export const UPLOADS = '/files';
export const FILE = '/files/:key';
/** The name is for people and for `Save as`; the key alone identifies the file. */
export const NAMED_FILE = '/files/:key/:filename';

/** Without parameters, and no form. */
const PLAIN_TYPE = /^(?!multipart\/)[\w.+-]+\/[\w.+-]+$/i;
const KEY_START = '/files/'.length;
const KEY_END = KEY_START + 22;
/** A name that needs no decoding, and is none of the facts' path. */
const PLAIN_FILE = /^\/files\/[\w-]{22}(?:\/(?!info$)[\w.~-]{1,255})?$/;

export class PlainRequests {
  readonly #options: PlainRequestsOptions;
  readonly #takesHeads = takesHeads();
  #open = true;

  constructor(options: PlainRequestsOptions) {
    this.#options = options;
  }

  /** From now on every request goes to its route. */
  close(): void {
    this.#open = false;
  }

  take(request: IncomingMessage, response: ServerResponse): boolean {
    const { method, url = '' } = request;
    const { read, store } = this.#options;
    const began = performance.now();
    if (method === 'POST' && url === UPLOADS && this.#isPlain(request, true)) {
      void this.#answer(request, response, store(request, response), UPLOADS, began);
      return true;
    }
    if (method === 'GET' && read && PLAIN_FILE.test(url) && this.#isPlain(request, false)) {
      const route = url.length === KEY_END ? FILE : NAMED_FILE;
      const answer = read(request, url.slice(KEY_START, KEY_END), route);
      void this.#answer(request, response, answer, route, began);
      return true;
    }
    return false;
  }

  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    answer: Promise<Answer>,
    route: string,
    began: number,
  ): Promise<void> {
    const { refuse, requestId, durations } = this.#options;
    const id = requestId(request);
    let isSent = true;
    try {
      isSent = this.#send(request, response, id, await answer);
    } catch (error) {
      refuse(error, request, response, { 'x-request-id': id });
    }
    if (!isSent) await new Promise<void>((resolve) => whenClosed(response, resolve));
    const seconds = (performance.now() - began) / 1000;
    durations.observe(request.method ?? '', route, response.statusCode, seconds);
  }

  /** False if the system has not accepted all of it yet. */
  #send(request: IncomingMessage, response: ServerResponse, id: string, answer: Answer): boolean {
    const { lastLines, unsent, send } = this.#options;
    const { status, headers, content } = answer;
    const { socket, shouldKeepAlive } = response;
    const isShort = typeof content === 'string' || Buffer.isBuffer(content);
    const isPlain = this.#takesHeads && shouldKeepAlive && request.httpVersion === '1.1';
    if (!isPlain || !isShort || !socket?.writable) {
      send(response, answer, { 'x-request-id': id });
      return false;
    }
    const head = `${headOf(status, headers)}${lastLines.at(Date.now())}${id}${END}`;
    const isTaken =
      typeof content === 'string'
        ? sendText(response, socket, status, head + content)
        : sendWithHead(response, socket, status, [head], content);
    if (!isTaken) unsent.watch(response, content.length);
    return isTaken;
  }

  #isPlain({ headers, rawHeaders }: IncomingMessage, isUpload: boolean): boolean {
    const { host = '', 'content-type': type, 'content-length': length } = headers;
    if (headers['transfer-encoding'] !== undefined || !hasOneHost(rawHeaders)) return false;
    if (isUpload) {
      if (length === undefined || !(Number(length) <= this.#options.maxBytes)) return false;
      if (type !== undefined && !PLAIN_TYPE.test(type)) return false;
      if (headers['tus-resumable'] !== undefined) return false;
    } else if (length !== undefined) {
      return false;
    }
    return this.#open && this.#options.hostNames?.has(host) !== false;
  }
}
