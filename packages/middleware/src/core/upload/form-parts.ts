import type { Readable } from 'node:stream';
import { Dicer } from '@fastify/busboy';
import type { TransferLimits } from '../limits.js';
import { ProblemError } from '../problems.js';
import type { RequestBody } from './request-body.js';

/**
 * Splits a multipart body into its parts, as they arrive and in order. The parser underneath drops
 * what it does not understand. Here a part without headers, a header block without end and a body
 * without its last boundary are errors, so that a form is accepted whole or not at all.
 */

export interface FormPart {
  /** Lower-case names; values one character per byte. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly content: Readable;
}

/** A chunk is at most this long; a limit checked after a chunk may be exceeded by this much. */
const CHUNK_BYTES = 2 ** 16;

export class FormParts {
  readonly #body: RequestBody;
  readonly #limits: TransferLimits;
  readonly #parser: Dicer;
  readonly #queue: FormPart[] = [];
  readonly #open = new Set<Readable>();
  #parts = 0;
  /** A boundary was read, and the headers after it were not yet. */
  #inHeaders = false;
  #headersBegan = 0;
  #fedBytes = 0;
  #lastBoundaryAt = -1;
  #done = false;
  #wake: (() => void) | undefined;
  #resumePump: (() => void) | undefined;

  constructor(body: RequestBody, boundary: string, limits: TransferLimits) {
    this.#body = body;
    this.#limits = limits;
    // The parser truncates headers at the point where we refuse them, so its limits are the wider
    // ones.
    const config = {
      boundary,
      maxHeaderPairs: limits.maxPartHeaders + 1,
      maxHeaderSize: limits.maxPartHeaderBytes + 1,
    };
    this.#parser = new Dicer(config);
    this.#parser.on('error', () => this.#fail('The body ends before its last boundary.'));
    this.#parser.on('part', (part) => this.#onPart(part));
    this.#parser.on('finish', () => {
      this.#lastBoundaryAt = this.#fedBytes;
      this.#onParserMoves();
    });
    this.#parser.on('drain', this.#onParserMoves);
    body.signal.addEventListener('abort', () => this.#abandon(), { once: true });
  }

  /** The parts. Read each one's content before you ask for the next. */
  async *parts(): AsyncGenerator<FormPart, void, undefined> {
    // The body's own failure is thrown below; one of the parser's becomes a failure of the body.
    this.#pump().catch(() => this.#fail('The body cannot be taken apart.'));
    for (;;) {
      if (this.#body.failure) throw this.#body.failure;
      const part = this.#queue.shift();
      if (part) {
        yield part;
        await drained(part.content);
      } else if (this.#done) {
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }

  async #pump(): Promise<void> {
    for await (const chunk of this.#body.chunks()) {
      this.#fedBytes += chunk.length;
      if (this.#lastBoundaryAt < 0) {
        if (!this.#parser.write(chunk)) await this.#parserMoves();
      }
      this.#checkBounds();
    }
    if (this.#lastBoundaryAt < 0) {
      this.#parser.end();
      while (this.#lastBoundaryAt < 0 && !this.#body.failure) await this.#parserMoves();
    }
    if (this.#inHeaders) this.#fail('The last part has no headers.');
    this.#done = true;
    this.#notify();
  }

  #onPart(part: Dicer.PartStream): void {
    part.on('error', () => {});
    if (this.#body.failure) return;
    this.#open.add(part);
    part.once('close', () => this.#open.delete(part));
    if (this.#inHeaders) {
      this.#fail('A part has no headers.');
      return;
    }
    this.#parts += 1;
    if (this.#parts > this.#limits.maxParts) {
      const message = `A form may have at most ${this.#limits.maxParts} parts.`;
      this.#body.fail(new ProblemError('too_many_parts', message));
      return;
    }
    this.#inHeaders = true;
    this.#headersBegan = this.#fedBytes;
    part.on('header', (headers) => this.#onHeaders(part, headers as FormPart['headers']));
  }

  #onHeaders(content: Readable, headers: FormPart['headers']): void {
    this.#inHeaders = false;
    let count = 0;
    let bytes = 0;
    for (const [name, values] of Object.entries(headers)) {
      count += values.length;
      for (const value of values) bytes += name.length + value.length + ': \r\n'.length;
    }
    if (count > this.#limits.maxPartHeaders || bytes > this.#limits.maxPartHeaderBytes) {
      this.#failHeaders();
      return;
    }
    this.#queue.push({ headers, content });
    this.#notify();
  }

  #checkBounds(): void {
    const { maxSurroundingBytes, maxPartHeaderBytes } = this.#limits;
    if (this.#parts === 0 && this.#fedBytes > maxSurroundingBytes) {
      this.#fail('The body does not begin with the boundary of its Content-Type.');
    }
    if (this.#lastBoundaryAt >= 0 && this.#fedBytes - this.#lastBoundaryAt > maxSurroundingBytes) {
      this.#fail('The body goes on after its last boundary.');
    }
    if (this.#inHeaders && this.#fedBytes - this.#headersBegan > maxPartHeaderBytes + CHUNK_BYTES) {
      this.#failHeaders();
    }
  }

  /** Resolves when the parser can go on, has finished, or the body has failed. */
  #parserMoves(): Promise<void> {
    return new Promise((resolve) => {
      this.#resumePump = resolve;
    });
  }

  readonly #onParserMoves = (): void => {
    const resume = this.#resumePump;
    this.#resumePump = undefined;
    resume?.();
  };

  #fail(message: string): void {
    this.#body.fail(new ProblemError('malformed_multipart', message));
  }

  #failHeaders(): void {
    const { maxPartHeaders, maxPartHeaderBytes } = this.#limits;
    const message = `A part may have ${maxPartHeaders} headers and ${maxPartHeaderBytes} bytes of them.`;
    this.#body.fail(new ProblemError('part_headers_too_large', message));
  }

  /** Fails the readers of parts that will not be completed. */
  #abandon(): void {
    for (const part of this.#open) part.destroy(this.#body.failure);
    this.#onParserMoves();
    this.#notify();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

/** Resolves once the part is over, whatever its reader has left unread. */
function drained(content: Readable): Promise<void> | undefined {
  if (content.readableEnded || content.destroyed) return undefined;
  return new Promise((resolve) => {
    content.once('close', resolve);
    content.once('end', resolve);
    content.resume();
  });
}
