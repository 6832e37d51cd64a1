import { IncomingMessage } from 'node:http';
import { PassThrough, pipeline, type Readable } from 'node:stream';
import { isAnyArrayBuffer } from 'node:util/types';
import { howUsed, WAS_READ } from '@stevedore/async';
import { StoreError } from '@stevedore/staging/errors';
import { invalidOption } from '../options.js';

/**
 * The kinds of bodies, and whether somebody has begun to read one. They are recognised by what they
 * can do, not by their class: a program may have several classes of each.
 */

/** Text, stored as UTF-8, or bytes. */
export type Chunk = string | ArrayBufferView | ArrayBuffer | SharedArrayBuffer;

/**
 * Text or bytes, or anything that yields them. A stream or iterator must not have been read before
 * (`body_used`). The `Content-Length` of a request or answer of `node:http` must arrive.
 *
 * A string is the content, never a path: `putFile` stores a file of the disk. `ReadableStream` is
 * the global type, so that it is the browser's in a program that has the browser's types, as in
 * Next.js.
 */
export type Body =
  | Chunk
  | Blob
  /** A `Response` or `Request`. */
  | { readonly body: ReadableStream | NodeJS.ReadableStream | null; readonly bodyUsed: boolean }
  | ReadableStream<Chunk>
  /** Also an old one, such as that of form-data. */
  | NodeJS.ReadableStream
  | AsyncIterable<Chunk>
  | Iterable<Chunk>;

/** Bytes in memory; undefined for anything else. */
export function inMemory(value: unknown): Buffer | undefined {
  if (Buffer.isBuffer(value)) return value;
  if (typeof value === 'string') return Buffer.from(value);
  if (ArrayBuffer.isView(value)) {
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  }
  return isAnyArrayBuffer(value) ? Buffer.from(value) : undefined;
}

type AnyIterator = AsyncIterator<unknown> | Iterator<unknown>;

/** A body that is not in memory. */
export interface Source {
  readonly iterate: () => AnyIterator;
  /** The stream or iterator, which can be read once; absent if the body can be read again. */
  readonly once?: object;
  /** Ends it where the iterator's `return` does not. */
  readonly stop?: () => unknown;
  /** The length that it announces. */
  readonly bytes?: number | undefined;
  /** Of its text. Default: UTF-8. */
  readonly encoding?: BufferEncoding | undefined;
  /** It may use the same memory for every chunk. */
  readonly reusesMemory?: boolean;
}

/** Throws `body_used`, and `invalid_option` for what is no body. */
export function sourceOf(body: unknown): Source {
  const any = Object(body) as Anything;
  if (typeof any.pipe === 'function' && typeof any.on === 'function') {
    // A stream that can only be written has no `readable`.
    if (any.readable !== undefined || !('write' in any)) return ofNodeStream(any as Readable);
  }
  if (typeof any.bodyUsed === 'boolean') {
    if (any.bodyUsed) throw used(WAS_READ);
    return any.body ? sourceOf(any.body) : { iterate: () => [].values(), bytes: 0 };
  }
  if (isBlob(any)) {
    // That of jsdom has no stream.
    const iterate = () => (any.stream ? sourceOf(any.stream()).iterate() : bytesOf(any));
    return { iterate, bytes: any.size };
  }
  if (typeof any.getReader === 'function') return ofWebStream(any as ReadableStream);
  const iterator = any[Symbol.asyncIterator] ?? any[Symbol.iterator];
  if (typeof iterator === 'function') {
    const iterate = iterator.bind(any);
    if (!('next' in any)) return { iterate, reusesMemory: true };
    demandUnread(any);
    return { iterate, once: any, reusesMemory: true };
  }
  throw invalidOption(
    `the body is ${kindOf(body)}: pass text, bytes, a Blob, a Response, a stream or an iterable, or call putFile for a file on disk`,
  );
}

/** Of `put`, and of the parts of `putAll`. A mistyped one would be left out without a word. */
const PUT_OPTIONS: ReadonlySet<string> = new Set([
  ...['name', 'type', 'group', 'expiresAt', 'durability', 'once', 'mode', 'size', 'maxBytes'],
  ...['transfer', 'signal', 'pictureOf', 'body'],
]);

/** The options with the type of a Blob and the name of a File as defaults, also for undefined ones. */
export function withOwnNames<Options extends { readonly name?: unknown; readonly type?: unknown }>(
  body: unknown,
  options: Options,
): Options {
  for (const name in options) {
    if (!PUT_OPTIONS.has(name)) throw invalidOption(`put has no option "${name}"`);
  }
  if (!isBlob(Object(body))) return options;
  const { type, name } = body as Partial<File>;
  return { ...options, type: options.type ?? (type || undefined), name: options.name ?? name };
}

interface Anything extends Partial<AsyncIterable<unknown> & Iterable<unknown>> {
  readonly bodyUsed?: unknown;
  readonly body?: unknown;
  readonly getReader?: unknown;
  readonly on?: unknown;
  readonly pipe?: unknown;
  readonly readable?: unknown;
}

type AnyBlob = Pick<Blob, 'size' | 'arrayBuffer'> & Partial<Pick<Blob, 'stream'>>;

function isBlob(any: object): any is AnyBlob {
  const { stream, arrayBuffer, size } = any as Partial<Blob>;
  const isReadable = typeof stream === 'function' || typeof arrayBuffer === 'function';
  return isReadable && typeof size === 'number';
}

async function* bytesOf(blob: AnyBlob): AsyncGenerator<ArrayBuffer> {
  yield await blob.arrayBuffer();
}

function ofNodeStream(stream: Readable): Source {
  demandUnread(stream);
  // It may fail before it is read.
  stream.on('error', () => {});
  if (typeof stream[Symbol.asyncIterator] !== 'function') {
    // An old stream, as that of form-data, flows only into a pipe, and may not wait for it.
    begin(stream);
    const bytes = pipeline(stream, new PassThrough(), () => {});
    bytes.on('error', () => {});
    return { iterate: () => bytes[Symbol.asyncIterator](), stop: () => bytes.destroy() };
  }
  const about = { once: stream, bytes: lengthOf(stream) };
  if (isRequest(stream)) {
    // Not destroyed: its connection carries the answer.
    return { ...about, iterate: () => stream.iterator({ destroyOnReturn: false }) };
  }
  const encoding = stream.readableEncoding ?? undefined;
  const iterate = () => stream[Symbol.asyncIterator]();
  return { ...about, encoding, iterate, stop: () => stream.destroy() };
}

function ofWebStream(stream: ReadableStream): Source {
  demandUnread(stream);
  const iterate = (): AnyIterator => {
    const reader = stream.getReader();
    // Unlike that of the stream's own iterator, it ends a read in progress.
    const end = async () => {
      await reader.cancel();
      return { done: true as const, value: undefined };
    };
    return { next: () => reader.read() as Promise<IteratorResult<unknown>>, return: end };
  };
  return { iterate, once: stream };
}

function isRequest(stream: object): boolean {
  const { httpVersion, method } = stream as Partial<IncomingMessage>;
  return typeof httpVersion === 'string' && typeof method === 'string';
}

function lengthOf(stream: object): number | undefined {
  if (!(stream instanceof IncomingMessage)) return undefined;
  const { 'content-length': length, 'transfer-encoding': coding } = stream.headers;
  return length === undefined || coding !== undefined ? undefined : Number(length);
}

/** What a store has begun to read, perhaps without a byte so far. */
const begun = new WeakSet<object>();

/** Throws `body_used` if it was begun before. */
export function begin(once: object): void {
  demandUnread(once);
  begun.add(once);
}

/**
 * Throws `body_used` for a stream or iterator that does not have all of its bytes any more. What
 * reads a request by itself calls this first.
 */
export function demandUnread(once: object): void {
  const how = begun.has(once) ? WAS_READ : howUsed(once);
  if (how === undefined) return;
  const isRequest = how === WAS_READ && once instanceof IncomingMessage;
  throw used(
    isRequest ? `${how}: put the upload ahead of body parsers, such as express.json()` : how,
  );
}

function used(how: string): StoreError {
  return new StoreError('body_used', `the body ${how}; no file was stored`);
}

/** For messages. */
export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value !== 'object') return `a ${typeof value}`;
  return `an instance of ${value.constructor?.name ?? 'no class'}`;
}
