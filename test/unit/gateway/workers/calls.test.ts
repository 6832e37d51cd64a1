import { StoreError } from '@stevedore/client';
import { expect, it } from 'vitest';
import { Calls, errorOf } from '../../../../gateway/dist/workers/calls.js';

type Answers = {
  readonly double: (value: number) => Promise<number>;
  readonly fail: () => never;
  readonly never: () => Promise<void>;
  readonly note: (text: string) => void;
};

function pair() {
  const notes: string[] = [];
  const answers: Answers = {
    double: async (value) => value * 2,
    fail: () => {
      throw new StoreError('disk_full', 'no room', { retryable: true });
    },
    never: () => new Promise(() => undefined),
    note: (text) => void notes.push(text),
  };
  // As over the channel: copies arrive, later.
  const one: Calls<Answers> = new Calls((message) => {
    setImmediate(() => other.take(structuredClone(message)));
  }, {});
  const other = new Calls<Record<never, never>>((message) => {
    setImmediate(() => one.take(structuredClone(message)));
  }, answers);
  return { one, notes };
}

it('a call is answered, by its own answer', async () => {
  const { one, notes } = pair();
  one.tell('note', 'told');
  const answers = await Promise.all([1, 2, 3].map((value) => one.ask('double', value)));
  expect(answers).toEqual([2, 4, 6]);
  expect(notes).toEqual(['told']);
});

it('an error keeps its name, code and message', async () => {
  const { one } = pair();
  const error = { name: 'StoreError', code: 'disk_full', message: 'no room', retryable: true };
  await expect(one.ask('fail')).rejects.toMatchObject(error);
  await expect((one as Calls<Record<string, () => void>>).ask('unknown')).rejects.toThrow(
    'there is no call "unknown"',
  );
});

it('a call ends with its time, and with the other process', async () => {
  const { one } = pair();
  await expect(one.askWithin(1, 'never')).rejects.toMatchObject({ code: 'storage_unavailable' });
  const waiting = one.ask('never');
  one.end(errorOf({ name: 'Error', message: 'it has ended' }));
  await expect(waiting).rejects.toThrow('it has ended');
  await expect(one.ask('double', 1)).rejects.toThrow('it has ended');
});

it('more calls than a bound are refused at once', async () => {
  const { one } = pair();
  const waiting = Array.from({ length: 10_000 }, () => one.ask('never').catch(() => 'ended'));
  await expect(one.ask('double', 1)).rejects.toThrow('too many calls wait');
  one.end(new Error('it has ended'));
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(['ended']));
});
