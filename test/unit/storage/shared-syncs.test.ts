import { expect, it } from 'vitest';
import { SharedSyncs } from '../../../packages/storage/dist/files/files-on-disk.js';

/** Syncs that end when the test says so. */
function gate() {
  const begun: { path: string; end(error?: Error): void }[] = [];
  const syncs = new SharedSyncs(
    (path) =>
      new Promise((resolve, reject) => {
        begun.push({ path, end: (error) => (error ? reject(error) : resolve()) });
      }),
  );
  return { begun, syncs };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

it('has those who come during a sync share the next one', async () => {
  const { begun, syncs } = gate();
  const done: string[] = [];
  const sync = (who: string, path = '/a') => void syncs.sync(path).then(() => done.push(who));
  sync('first');
  sync('second');
  sync('third');
  sync('other', '/b');
  await turn();
  expect(begun.map(({ path }) => path)).toEqual(['/a', '/b']);
  begun[0]!.end();
  await turn();
  expect(done).toEqual(['first']);
  expect(begun.map(({ path }) => path)).toEqual(['/a', '/b', '/a']);
  sync('late');
  begun[2]!.end();
  await turn();
  expect(done).toEqual(['first', 'second', 'third']);
  begun[3]!.end();
  await turn();
  expect(done).toEqual(['first', 'second', 'third', 'late']);
  sync('alone');
  expect(begun).toHaveLength(5);
});

it('tells those of a failure who asked for that sync, and goes on', async () => {
  const { begun, syncs } = gate();
  const told: string[] = [];
  for (const who of ['first', 'second', 'third']) {
    syncs.sync('/a').then(
      () => told.push(who),
      (error: Error) => told.push(`${who}: ${error.message}`),
    );
  }
  begun[0]!.end(new Error('full'));
  await turn();
  expect(told).toEqual(['first: full']);
  begun[1]!.end();
  await turn();
  expect(told).toEqual(['first: full', 'second', 'third']);
});
