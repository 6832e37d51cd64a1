import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import type { FuzzReport, FuzzTask } from '../../support/attack/form-fuzz-thread.js';
import { COMPILED } from '../../support/paths.js';

/**
 * Damaged forms by the ten thousand, in continuous integration by the million, straight
 * into the parser: each one ends, with files or with a problem that has a name, and
 * nothing is thrown past it. STEVEDORE_TEST_FORMS says how many, STEVEDORE_TEST_SEED
 * where to begin, STEVEDORE_TEST_THREADS on how many threads.
 */

const COUNT = Number(process.env.STEVEDORE_TEST_FORMS ?? 2_000);
const SEED = Number(process.env.STEVEDORE_TEST_SEED ?? 1);
const THREADS = Number(process.env.STEVEDORE_TEST_THREADS ?? 2);
/** A thread that tells of no thousand forms for so long has one that does not end. */
const STUCK_MS = 120_000;
const THREAD = join(COMPILED, 'support/attack/form-fuzz-thread.js');

/** Resolves with how many ended how; rejects with the seed of the one that did not. */
function fuzz(task: FuzzTask): Promise<Readonly<Record<string, number>>> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(THREAD, { workerData: task });
    let done = 0;
    const stuck = (): void => {
      const from = task.firstSeed + done;
      reject(new Error(`a form of the thousand seeds from ${from} on does not end`));
      void worker.terminate();
    };
    let timer = setTimeout(stuck, STUCK_MS);
    worker.on('message', (report: FuzzReport) => {
      done = report.done;
      clearTimeout(timer);
      if (report.outcomes) resolve(report.outcomes);
      else timer = setTimeout(stuck, STUCK_MS);
    });
    worker.on('error', reject);
    worker.on('exit', () => {
      clearTimeout(timer);
      reject(new Error(`a thread ended after ${done} of ${task.count} forms`));
    });
  });
}

test(`${COUNT} damaged forms each end with files or a problem`, {
  timeout: 1_200_000,
}, async () => {
  const share = Math.ceil(COUNT / THREADS);
  const tasks = Array.from({ length: THREADS }, (_, index) => ({
    firstSeed: SEED + index * share,
    count: Math.min(share, COUNT - index * share),
  }));
  const outcomes = new Map<string, number>();
  for (const each of await Promise.all(tasks.map(fuzz))) {
    for (const [code, times] of Object.entries(each)) {
      outcomes.set(code, (outcomes.get(code) ?? 0) + times);
    }
  }
  const all = [...outcomes.values()].reduce((sum, times) => sum + times, 0);
  expect(all).toBe(COUNT);
  const known = [
    'taken',
    'malformed_multipart',
    'no_file',
    'part_headers_too_large',
    'unsupported_encoding',
  ];
  expect([...outcomes.keys()].filter((code) => !known.includes(code))).toEqual([]);
  expect(outcomes.get('taken')).toBeGreaterThan(COUNT / 20);
  expect(outcomes.get('malformed_multipart')).toBeGreaterThan(COUNT / 20);
});
