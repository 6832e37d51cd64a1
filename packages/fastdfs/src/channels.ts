import { type TracingChannel, tracingChannel } from 'node:diagnostics_channel';

/**
 * What the client tells `node:diagnostics_channel`: each name is a tracing channel
 * (`tracing:NAME:start`, `:asyncEnd`, `:error`). While nobody listens, a call costs one
 * look at a flag.
 */

/** A socket to a server is being opened. */
export interface ConnectMessage {
  /** `host:port` */
  readonly address: string;
}

/** A request to one server and its answer, the wait for a connection included. */
export interface RequestMessage {
  readonly address: string;
  /** The client's call that it serves: `upload`, `download`, `info`, ... */
  readonly operation: string;
  readonly fileId: string | undefined;
}

export const CHANNELS = Object.freeze({
  connect: 'stevedore.fastdfs.connect',
  request: 'stevedore.fastdfs.request',
});

export const connectChannel = tracingChannel<unknown, ConnectMessage>(CHANNELS.connect);
export const requestChannel = tracingChannel<unknown, RequestMessage>(CHANNELS.request);

/** Runs the work, and tells of it if anybody listens. */
export function traced<Message extends object, Result>(
  channel: TracingChannel<unknown, Message>,
  message: () => Message,
  work: () => Promise<Result>,
): Promise<Result> {
  return channel.hasSubscribers ? channel.tracePromise(work, message()) : work();
}
