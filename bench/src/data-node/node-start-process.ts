import { type Storage, startStorage } from '@stevedore/node';
import { serve } from '../harness/serve.js';

/** The measured process: a storage over a directory that is full, without a cache. */

export interface NodeStart {
  readonly port: number;
  /** From the beginning of the process to listening, Node's own start included. */
  readonly processMs: number;
  /** Of that, the call of `startStorage`. */
  readonly startMs: number;
}

export type NodeStartHandlers = {
  readonly start: (directory: string) => Promise<NodeStart>;
  readonly rssBytes: () => number;
};

let storage: Storage | undefined;

async function start(directory: string): Promise<NodeStart> {
  const begun = performance.now();
  storage = await startStorage({
    port: 0,
    storePaths: [directory],
    // Every read is to reach the disk's files.
    cacheBytes: 0,
    onError: (error) => console.error(`storage: ${error.message}`),
  });
  const ready = performance.now();
  return { port: storage.port, processMs: ready, startMs: ready - begun };
}

serve(
  { start, rssBytes: () => process.memoryUsage.rss() } satisfies NodeStartHandlers,
  async () => {
    await storage?.close();
  },
);
