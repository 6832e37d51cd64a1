import { startTracker, type Tracker } from '@stevedore/tracker';
import { serve } from '../harness/serve.js';

/** A tracker in a process of its own. */

export type TrackerHandlers = {
  /** Answers with its address. */
  readonly start: () => Promise<string>;
};

let tracker: Tracker | undefined;

async function start(): Promise<string> {
  tracker = await startTracker({
    port: 0,
    reservedSpaceMegabytes: 64,
    onError: (error) => console.error(`tracker: ${error.message}`),
  });
  return `127.0.0.1:${tracker.port}`;
}

serve({ start } satisfies TrackerHandlers, async () => {
  await tracker?.close();
});
