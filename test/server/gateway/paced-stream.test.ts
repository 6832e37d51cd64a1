import { get, type IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { defaultTransferLimits, UnsentBytes } from '@stevedore/middleware/core';
import { expect, onTestFinished, test } from 'vitest';
import { PacedStream } from '../../../gateway/dist/http/paced-stream.js';
import { serving } from '../../support/serving.js';
import { soon } from '../../support/soon.js';

/** What a client gets of a stream of so many chunks, which may fail behind them. */
async function answer(chunks: number, failure?: Error) {
  const unsent = new UnsentBytes(defaultTransferLimits);
  async function* bytes() {
    for (let left = chunks; left > 0; left -= 1) yield Buffer.alloc(65_536, 'x');
    if (failure) throw failure;
  }
  const stream = Readable.from(bytes());
  const url = await serving((_request, response) => {
    new PacedStream(stream, unsent).send(response, () => {});
  });
  onTestFinished(() => unsent.close());
  const got = await new Promise<IncomingMessage>((resolve) => {
    get(url, { agent: false }, resolve);
  });
  return { unsent, stream, got };
}

test('a client that takes nothing counts as stalled until it goes on', async () => {
  const { unsent, got } = await answer(400);
  await soon(() => expect(unsent.stats().stalled).toBe(1));
  expect(unsent.stats().bytes).toBeGreaterThan(0);
  let bytes = 0;
  for await (const chunk of got) bytes += (chunk as Buffer).length;
  expect(bytes).toBe(400 * 65_536);
  await soon(() => expect(unsent.stats()).toMatchObject({ stalled: 0, bytes: 0 }));
});

test('the one that has stalled longest is disconnected where others need the room', async () => {
  const { unsent, stream, got } = await answer(400);
  got.on('error', () => {});
  await soon(() => expect(unsent.stats().stalled).toBe(1));
  expect(unsent.endLongestStalled()).toBe(true);
  await soon(() => expect(stream.destroyed).toBe(true));
  expect(unsent.stats()).toMatchObject({ stalled: 0, bytes: 0 });
});

test('a stream that fails breaks the connection off, so that no part looks like the whole', async () => {
  const { got } = await answer(3, new Error('a storage has gone'));
  await expect(got.toArray()).rejects.toThrow('aborted');
});
