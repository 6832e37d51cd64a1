import { FastdfsClient, FastdfsError, type FastdfsOptions } from '@stevedore/fastdfs';
import { expect, onTestFinished } from 'vitest';
import { GoodServer } from './good-server.js';

export { until } from './until.js';

/** Servers and clients of one test, closed behind it; and what tests say about failures. */

export async function goodServer(host?: string): Promise<GoodServer> {
  const server = await GoodServer.listen(host);
  onTestFinished(() => server.close());
  return server;
}

export function clientOf(
  trackers: string | readonly string[],
  options: Omit<FastdfsOptions, 'trackers'> = {},
): FastdfsClient {
  const list = typeof trackers === 'string' ? [trackers] : trackers;
  const client = new FastdfsClient({ trackers: list, ...options });
  onTestFinished(() => client.close());
  return client;
}

/** The error of a call that must fail with a FastdfsError. */
export async function failure(call: Promise<unknown>, what?: string): Promise<FastdfsError> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error, what).toBeInstanceOf(FastdfsError);
  return error as FastdfsError;
}

/** A body in chunks that tells whether it was asked to stop. */
export class Chunks implements AsyncIterable<Uint8Array> {
  pulled = 0;
  returned = false;
  readonly #chunks: Iterable<Uint8Array>;

  constructor(chunks: Iterable<Uint8Array>) {
    this.#chunks = chunks;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    try {
      for (const chunk of this.#chunks) {
        this.pulled += chunk.length;
        yield chunk;
      }
    } finally {
      this.returned = true;
    }
  }
}

/** `count` chunks of `size` bytes with contents that differ from each other. */
export function* chunksOf(count: number, size: number): Generator<Uint8Array> {
  for (let index = 0; index < count; index++) yield Buffer.alloc(size, index + 1);
}
