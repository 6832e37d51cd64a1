import { IncomingMessage, ServerResponse, STATUS_CODES, validateHeaderValue } from 'node:http';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';
import type { UnsentBytes } from '@stevedore/middleware/core';
import type { HostNames } from '../access/origins.js';
import type { RequestDurations } from '../observe/durations.js';

/**
 * Sends answers whose head is complete text instead of one made by Node's response, for a quarter
 * less CPU: 50 µs instead of 62 µs for 20 KB, of the HTTP server alone. That is no part of Node's
 * interface. `takesHeads` says whether this Node supports it.
 */

export const END = '\r\n\r\n';

/** What answers past the framework need, of uploads and of downloads. */
export interface DirectParts {
  readonly requestId: (request: IncomingMessage) => string;
  readonly durations: RequestDurations;
  readonly unsent: UnsentBytes;
  readonly lastLines: LastLines;
  /** The served host names, if not all are. */
  readonly hostNames: HostNames | undefined;
}

/** The last headers of an answer, up to the value of the very last, which is the request's id. */
export class LastLines {
  readonly #keepAlive: string;
  #second = 0;
  #lines = '';

  /** `keepAliveMs`: how long a connection stays open without a request. */
  constructor(keepAliveMs: number) {
    const seconds = Math.floor(keepAliveMs / 1000);
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${seconds}`;
  }

  at(now: number): string {
    const second = Math.floor(now / 1000);
    if (second !== this.#second) {
      this.#second = second;
      const date = new Date(now).toUTCString();
      this.#lines = `Date: ${date}\r\n${this.#keepAlive}\r\nx-request-id: `;
    }
    return this.#lines;
  }
}

type WithHead = ServerResponse & { _header: string | null; _headerSent: boolean };

/** What a header may have (RFC 9110, section 5.5): looked at here, as most values pass. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * Status line and headers, without the empty line at their end, as the HTTP server would write them.
 */
export function headOf(
  status: number,
  headers: Readonly<Record<string, unknown>>,
  leftOut?: ReadonlySet<string>,
): string {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
  for (const name in headers) {
    if (leftOut?.has(name)) continue;
    const value = headers[name];
    for (const text of Array.isArray(value) ? value : [value]) {
      if (!VALUE.test(text)) validateHeaderValue(name, text);
      head += `${name}: ${text}\r\n`;
    }
  }
  return head;
}

/**
 * Sends a whole answer; the last part of its head ends with an empty line. False if the system has
 * not accepted all of it yet.
 */
export function sendWithHead(
  response: ServerResponse,
  socket: Socket,
  status: number,
  head: readonly (Buffer | string)[],
  body: Buffer,
): boolean {
  begin(response, status);
  socket.cork();
  for (const part of head) socket.write(part, 'latin1');
  socket.write(body);
  socket.uncork();
  const isTaken = socket.writableLength === 0;
  response.end();
  return isTaken;
}

/** Sends a whole answer that is one text, as UTF-8. As `sendWithHead`. */
export function sendText(
  response: ServerResponse,
  socket: Socket,
  status: number,
  text: string,
): boolean {
  begin(response, status);
  socket.write(text);
  const isTaken = socket.writableLength === 0;
  response.end();
  return isTaken;
}

function begin(response: ServerResponse, status: number): void {
  const sent = response as WithHead;
  sent.statusCode = status;
  sent._header = SENT;
  sent._headerSent = true;
}

/** Any non-empty string: the head is sent unchanged. */
const SENT = 'HTTP/1.1 200 OK\r\n\r\n';

/** Whether it sends what it was given, and nothing else. */
export function takesHeads(): boolean {
  const head = 'HTTP/1.1 200 OK\r\nx-one: 1\r\n';
  let sent = '';
  const socket = new Writable({
    decodeStrings: true,
    write(bytes: Buffer, _encoding, done) {
      sent += bytes.toString('latin1');
      done();
    },
  }) as Socket;
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  response.assignSocket(socket);
  sendWithHead(response, socket, 200, [Buffer.from(head), '\r\n'], Buffer.from('body'));
  return response.writableEnded && sent === `${head}\r\nbody`;
}
