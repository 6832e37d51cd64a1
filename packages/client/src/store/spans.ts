import { tracingChannel } from 'node:diagnostics_channel';
import { CHANNELS } from '@stevedore/fastdfs';
import { isError } from '@stevedore/protocol';
import { isStoreError, MERGE_CHANNEL } from '@stevedore/staging';
import { STORE_CHANNELS } from './channels.js';

/**
 * OpenTelemetry spans of the stores of this process, made from their channels. They contain sizes
 * and types, never keys, FastDFS ids or names: a key is enough to read its file.
 */

type Attributes = Record<string, string | number | boolean>;

/** The part of a span of `@opentelemetry/api` that is used here. */
export interface SpanLike {
  setAttributes(attributes: Attributes): unknown;
  /** Code 2 is an error. */
  setStatus(status: { code: number; message?: string }): unknown;
  end(): void;
}

/** A Tracer of `@opentelemetry/api` is one. */
export interface TracerLike {
  startSpan(name: string): SpanLike;
}

const ERROR = 2;
const { trunk: _, ...CALLS } = STORE_CHANNELS;
const TRACED = [...Object.values(CALLS), MERGE_CHANNEL, CHANNELS.request];
/** Properties of a message, or of its result, that become attributes. */
const SHOWN = ['bytes', 'size', 'type', 'state', 'kind', 'files', 'operation', 'address'];

/**
 * Records a span for each put, get, read and delete, each attempt to store a trunk and each request
 * to FastDFS, under the span that is active when it begins. Returns a function that stops it.
 */
export function recordSpans(tracer: TracerLike): () => void {
  const ends = TRACED.map((name) => recordChannel(tracer, name));
  return () => {
    for (const end of ends) end();
  };
}

interface Ended {
  readonly result?: unknown;
  readonly error?: unknown;
}

function recordChannel(tracer: TracerLike, name: string): () => void {
  const spans = new WeakMap<object, SpanLike>();
  const ignored = (): void => undefined;
  const handlers = {
    start: (message: object) => void spans.set(message, tracer.startSpan(name)),
    end: ignored,
    asyncStart: ignored,
    error: (message: Ended & object) => {
      const code = codeOf(message.error);
      spans.get(message)?.setAttributes({ 'error.type': code });
      spans.get(message)?.setStatus({ code: ERROR, message: code });
    },
    asyncEnd: (message: Ended & object) => {
      const span = spans.get(message);
      span?.setAttributes({ ...shown(message), ...shown(message.result) });
      span?.end();
    },
  };
  const channel = tracingChannel<unknown, object>(name);
  channel.subscribe(handlers);
  return () => channel.unsubscribe(handlers);
}

function shown(from: unknown): Attributes {
  if (Array.isArray(from)) return { 'stevedore.files': from.length };
  if (typeof from !== 'object' || from === null) return {};
  const values = from as Record<string, string | number | undefined>;
  const attributes: Attributes = {};
  for (const name of SHOWN) {
    const value = values[name];
    if (value !== undefined) attributes[`stevedore.${name}`] = value;
  }
  return attributes;
}

function codeOf(error: unknown): string {
  if (isStoreError(error)) return error.code;
  return isError(error) && 'code' in error ? String(error.code) : 'other';
}
