import type { GatewayParts } from '@stevedore/client/internal';
import type { Calls } from './calls.js';

/**
 * Trunks of a worker, which the embedded node of the primary takes as files: the worker writes them to
 * the disk of both, and the channel passes their paths.
 */

type Take = NonNullable<GatewayParts['take']>;
type Write = Parameters<Take>[0]['write'];

/** Calls from a worker that the primary answers. `number`: of the trunk, at this worker. */
export type TakeCalls = {
  /** Resolves with the FastDFS id. */
  readonly takeTrunk: (number: number, size: number, extension: string) => Promise<string>;
};

/** Calls from the primary. */
export type WriteCalls = {
  readonly writeTrunk: (number: number, path: string) => Promise<void>;
};

/** The primary's side, for one worker. */
export function takesOf(take: Take | undefined, worker: () => Calls<WriteCalls>): TakeCalls {
  return {
    takeTrunk: async (number, size, extension) => {
      if (!take) throw new Error('the gateway has no embedded node');
      // It ends when the worker does.
      const write = (path: string) => worker().askWithin(0, 'writeTrunk', number, path);
      return await take({ size, extension, write });
    },
  };
}

/** The worker's side. */
export class HandedTrunks {
  readonly #primary: Calls<TakeCalls>;
  readonly #writing = new Map<number, Write>();
  #count = 0;

  constructor(primary: Calls<TakeCalls>) {
    this.#primary = primary;
  }

  readonly take: Take = async ({ size, extension, write }) => {
    this.#count += 1;
    const number = this.#count;
    let failure: { readonly error: unknown } | undefined;
    this.#writing.set(number, async (path) => {
      try {
        await write(path);
      } catch (error) {
        failure = { error };
        throw error;
      }
    });
    try {
      return await this.#primary.askWithin(0, 'takeTrunk', number, size, extension);
    } catch (error) {
      // Between processes, an error loses what it is.
      throw failure ? failure.error : error;
    } finally {
      this.#writing.delete(number);
    }
  };

  readonly write: WriteCalls['writeTrunk'] = async (number, path) => {
    const write = this.#writing.get(number);
    if (!write) throw new Error(`nothing waits to be written to ${path}`);
    await write(path);
  };
}
