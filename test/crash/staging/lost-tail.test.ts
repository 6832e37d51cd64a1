import { crc32 } from 'node:zlib';
import { isStoreError } from '@stevedore/staging';
import { expect, test } from 'vitest';
import { Random } from '../../support/random.js';
import { inParallel } from '../../support/simulator/parallel.js';
import { differentOf } from '../../support/simulator/sample.js';
import {
  type HostState,
  type StagingCrash,
  StagingHost,
  situationOf,
} from '../../support/simulator/staging/host.js';
import { large, some } from '../../support/simulator/staging/scripts.js';

/**
 * Durability `os`: what was acknowledged may be lost to a power failure, also where the
 * FileMap outlives it. Every crash point of a history is tried. A file is then there, or
 * not there, or an error; it never has other bytes, and what FastDFS had confirmed before
 * is there, also if it was being moved.
 */

const SEED = Number(process.env.STEVEDORE_TEST_SEED ?? 1);
const OPTIONS = { durability: 'os', segmentBytes: 2500, retain: 0 } as const;
const CRASHES: readonly StagingCrash[] = [
  { mode: 'lost', harm: 'kept' },
  { mode: 'subset', harm: 'kept' },
  { mode: 'torn', harm: 'kept' },
  { mode: 'lost', harm: 'stale' },
  { mode: 'torn', harm: 'torn' },
  { mode: 'killed', harm: 'kept' },
];

interface Point {
  readonly state: HostState;
  /** Keys of files that have been in a confirmed trunk for long. */
  readonly settled: readonly Buffer[];
}

async function record(): Promise<Point[]> {
  const host = new StagingHost(OPTIONS, new Random(SEED));
  const points: Point[] = [];
  let settled: readonly Buffer[] = [];
  host.onPoint = () => points.push({ state: host.state(), settled });
  await host.start();
  await host.put(some(host, 6));
  await host.put(large(host));
  await host.flush();
  // A start makes durable whatever it finds.
  await host.close();
  await host.start();
  settled = host.ledger.in('kept').map(({ key }) => key);
  await host.put(some(host, 2));
  await host.put(large(host));
  // More than half of the first trunk: the others are moved.
  const first = host.ledger.in('kept').slice(0, 4);
  settled = settled.filter((key) => !first.some((entry) => entry.key.equals(key)));
  for (const { key } of first) await host.delete(key);
  await host.until(() => host.staging.stats().waitingFiles > 2);
  await host.flush();
  await host.put(some(host, 2));
  host.onPoint = () => undefined;
  await host.dispose();
  return points;
}

const randomOf = ({ ledger }: HostState) => new Random(SEED + ledger.version);

let errors = 0;
let told = 0;

async function look(host: StagingHost, settled: readonly Buffer[]): Promise<void> {
  const { staging, store } = host;
  for (const { key, bytes, name } of host.ledger.entries()) {
    const isSettled = settled.some((each) => each.equals(key));
    const row = staging.fileMap.find(key);
    expect(row !== undefined || !isSettled, `${name} was in FastDFS and is not there`).toBe(true);
    if (!row) continue;
    expect(row.crc32).toBe(crc32(bytes));
    try {
      let found: Buffer | undefined;
      if (row.local.at === 'container') found = await staging.local.read(row);
      else if (staging.local.has(row)) {
        const chunks: Buffer[] = [];
        for await (const chunk of staging.spool.read(row.key, row)) chunks.push(chunk);
        found = Buffer.concat(chunks);
      }
      const trunk = row.trunk && store.files.get(row.trunk.fileId);
      found ??= trunk?.subarray(row.trunk!.offset, row.trunk!.offset + row.size);
      if (!found) errors += 1;
      else expect(found.equals(bytes), `${name} has other bytes`).toBe(true);
      expect(found !== undefined || !isSettled, `${name} cannot be read any more`).toBe(true);
    } catch (error) {
      if (!isStoreError(error, 'corrupt') || isSettled) throw error;
      errors += 1;
    }
  }
}

test('a power failure with durability os leaves right bytes, errors or nothing', {
  timeout: 300_000,
}, async () => {
  const points = await record();
  const all = points.flatMap((point) => CRASHES.map((crash) => ({ point, crash })));
  const work = differentOf(all, ({ point: { state }, crash }) =>
    situationOf(state, crash, randomOf(state)),
  );
  await inParallel(work, 24, async ({ point: { state, settled }, crash }) => {
    const host = StagingHost.after(state, OPTIONS, crash, randomOf(state));
    host.isTolerant = true;
    try {
      await host.start();
      await host.until(() => host.staging.rebuild.isComplete, true);
      await look(host, settled);
      const lost = host.errors.filter(({ message }) => message.includes('power failure lost'));
      told += lost.length;
      if (crash.mode === 'killed') expect(lost).toEqual([]);
      // What is left is merged, and the container is emptied behind it.
      await host.put(some(host, 1));
      await host.flush();
      await look(host, settled);
      await host.close();
      await host.start();
      await look(host, settled);
    } catch (error) {
      throw new Error(`${JSON.stringify(crash)}: ${(error as Error).message}`, { cause: error });
    } finally {
      await host.dispose();
    }
  });
  console.log(
    `${work.length} different starts, ${told} that told of losses, ${errors} reads refused`,
  );
  expect(points.length).toBeGreaterThan(100);
  expect(told).toBeGreaterThan(20);
  expect(errors).toBeGreaterThan(20);
});
