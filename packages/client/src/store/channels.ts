import { channel, type TracingChannel, tracingChannel } from 'node:diagnostics_channel';
import type { TrunkEvent } from '@stevedore/staging';
import type { Receipt, StoredFile } from './types.js';

/**
 * What the store publishes on `node:diagnostics_channel`. `put`, `get`, `read` and `delete` are
 * tracing channels (`tracing:NAME:start`, `:asyncEnd`, `:error`), `trunk` is a plain one. Without
 * subscribers a call costs one check of a flag. Messages contain keys, so subscribers must be
 * trusted.
 */

export interface PutMessage {
  /** The store that was called; a process may have several. */
  readonly store: object;
  /** As given; undefined for an upload of several files. */
  readonly name: string | undefined;
  readonly type: string | undefined;
  readonly group: string | undefined;
  /** Set at the end: what was acknowledged. */
  readonly result?: Receipt | readonly Receipt[];
}

export interface GetMessage {
  readonly store: object;
  /** Key or FastDFS id. */
  readonly id: string;
  readonly result?: StoredFile;
}

/** A read of a file or of a range of it. It ends when the first bytes can be sent. */
export interface ReadMessage {
  readonly store: object;
  /** Undefined for a FastDFS file whose key the store does not know. */
  readonly key: string | undefined;
  readonly bytes: number;
}

export interface DeleteMessage {
  readonly store: object;
  readonly key: string;
}

export interface TrunkMessage extends TrunkEvent {
  readonly store: object;
}

export const STORE_CHANNELS = Object.freeze({
  put: 'stevedore.put',
  get: 'stevedore.get',
  read: 'stevedore.read',
  delete: 'stevedore.delete',
  trunk: 'stevedore.trunk',
});

export const putChannel = tracingChannel<unknown, PutMessage>(STORE_CHANNELS.put);
export const getChannel = tracingChannel<unknown, GetMessage>(STORE_CHANNELS.get);
export const readChannel = tracingChannel<unknown, ReadMessage>(STORE_CHANNELS.read);
export const deleteChannel = tracingChannel<unknown, DeleteMessage>(STORE_CHANNELS.delete);
export const trunkChannel = channel(STORE_CHANNELS.trunk);

/** Runs the work, and publishes it if there are subscribers. */
export function traced<Message extends object, Result>(
  to: TracingChannel<unknown, Message>,
  message: () => Message,
  work: () => Promise<Result>,
): Promise<Result> {
  return to.hasSubscribers ? to.tracePromise(work, message()) : work();
}
