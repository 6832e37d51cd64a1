import { expect, test } from 'vitest';
import { Random } from '../../support/random.js';
import { inParallel } from '../../support/simulator/parallel.js';
import type { FileMapHarm } from '../../support/simulator/staging/file-map-image.js';
import { type HostState, StagingHost } from '../../support/simulator/staging/host.js';
import { large, some } from '../../support/simulator/staging/scripts.js';

/**
 * A process is killed while it writes; the next one finds that the disk does not sync
 * what was written, and is refused its start; the one after that starts. What it then
 * shows is durable: a sync that failed is not made good by a later one that succeeds,
 * so it must not rely on that.
 */

const SEED = Number(process.env.STEVEDORE_TEST_SEED ?? 1);
/** Of a start, until it has read the container. */
const LAST_OPERATION = 24;
const HARMS: readonly FileMapHarm[] = ['kept', 'stale', 'deleted'];

async function killedAtWork(): Promise<HostState[]> {
  const host = new StagingHost({}, new Random(SEED));
  const states: HostState[] = [];
  host.onPoint = (what) => {
    if (what.startsWith('after write /container')) states.push(host.state());
  };
  await host.start();
  await host.put(some(host, 2));
  await Promise.all([host.put(some(host, 3)), host.put(some(host, 1)), host.put(large(host))]);
  await host.flush();
  await host.delete(host.ledger.in('kept')[0]!.key);
  host.onPoint = () => undefined;
  await host.dispose();
  return states;
}

/** True if the operation failed a sync of the container, and so the start. */
async function tryStarts(state: HostState, at: number, harm: FileMapHarm): Promise<boolean> {
  const random = new Random(SEED);
  const host = StagingHost.after(state, {}, { mode: 'killed', harm }, random);
  let last: StagingHost | undefined;
  try {
    host.disk.fail({ at, code: 'EIO', once: true });
    const isRefused = await host.start().then(
      () => false,
      () => true,
    );
    if (!host.disk.failures[0]?.startsWith('sync /container')) return false;
    expect(isRefused, 'it started although a sync had failed').toBe(true);
    await host.start();
    host.ledger.settle(host.staging, 'all');
    await host.check();
    last = StagingHost.after(host.state(), {}, { mode: 'lost', harm }, random);
    await last.start();
    last.ledger.settle(last.staging, 'none');
    await last.check();
    return true;
  } finally {
    await host.dispose();
    await last?.dispose();
  }
}

test('what a start shows after another was refused is durable', async () => {
  const states = await killedAtWork();
  let refused = 0;
  const work = states.flatMap((state) => HARMS.map((harm) => ({ state, harm })));
  await inParallel(work, 12, async ({ state, harm }) => {
    for (let at = 1; at <= LAST_OPERATION; at += 1) {
      if (await tryStarts(state, at, harm)) refused += 1;
    }
  });
  console.log(`${states.length} kills, ${refused} refused starts`);
  expect(refused).toBeGreaterThan(20);
});
