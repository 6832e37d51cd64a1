import { expect, test } from 'vitest';
import { part, post, postParts, RawConnection, running } from '../../support/gateway/harness.js';

/** Attacks through names, ids and claims. */

test('names never become paths', async () => {
  const gateway = await running();
  await post(gateway, 'x', { 'x-filename': encodeURIComponent('../escaped-raw') });
  await postParts(gateway, part('name="f"; filename="../escaped-form"', 'x'));
  const names = [...gateway.store.files.values()].map(({ info }) => info.name);
  expect(names).toEqual(['../escaped-raw', '../escaped-form']);
  const paths = [
    '..%2fsecret',
    '%2e%2e/secret',
    '..%5csecret',
    '..%00/../secret',
    '%252e%252e%252fsecret',
  ];
  for (const prefix of ['/files/', '/group1/', '/group1/M00/', '/']) {
    for (const path of paths) {
      const connection = new RawConnection(gateway.port);
      const target = `${prefix}${path}`;
      void connection.send(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
      expect((await connection.answer()).status, target).toBeGreaterThanOrEqual(400);
    }
  }
  expect(gateway.store.asked).toEqual([]);
});

test('from the key of one file nobody guesses that of the next', async () => {
  const gateway = await running();
  const { body } = await post(gateway, 'mine');
  await post(gateway, 'yours');
  for (let bit = 0; bit < 64; bit += 1) {
    const guess = Buffer.from(String(body.key), 'base64url');
    guess[guess.length - 1 - (bit >> 3)]! ^= 1 << (bit & 7);
    const answer = await fetch(`${gateway.url}/files/${guess.toString('base64url')}`);
    expect(await answer.text()).not.toBe('yours');
  }
});
