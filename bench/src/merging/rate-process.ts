import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Staging } from '@stevedore/staging';
import { startClock } from '../harness/load.js';
import { stagingOptions } from '../staging/small-files.js';
import { forgettingTrunkStore } from '../staging/trunk-stores.js';
import { TRUNK_BYTES } from './sites.js';

/** The measured process: a backlog of files that is merged as fast as can be. */

const POLL_MS = 10;

export async function merge(directory: string) {
  const options = { trunkSize: TRUNK_BYTES };
  const staging = await Staging.open(stagingOptions(directory, forgettingTrunkStore(), options));
  let [trunks, mostRssBytes] = [0, 0];
  staging.changes.on('trunk', () => {
    trunks += 1;
  });
  const watch = setInterval(() => {
    mostRssBytes = Math.max(mostRssBytes, process.memoryUsage.rss());
  }, POLL_MS);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const clock = startClock();
  await staging.merging.flush();
  const span = clock();
  delay.disable();
  clearInterval(watch);
  await staging.close();
  const delays = { delayP99Ms: delay.percentile(99) / 1e6, mostDelayMs: delay.max / 1e6 };
  return { ...span, ...delays, trunks, mostRssBytes };
}
