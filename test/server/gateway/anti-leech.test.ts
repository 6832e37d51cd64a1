import { signedDownload } from '@stevedore/middleware/core';
import { makeToken } from '@stevedore/protocol';
import { describe, expect, test } from 'vitest';
import { Access } from '../../../gateway/dist/access/access.js';
import { call, NOW, SECRET } from '../../support/gateway/guarded.js';
import { type Running, running } from '../../support/gateway/harness.js';
import { openGateway } from '../../support/store.js';

describe('the anti-leech token of FastDFS paths', () => {
  const name = 'M00/00/00/wKgAAWl2Y2SAAAAABAAAAHqsT7I123.jpg';
  const seconds = NOW / 1000;

  async function leeched(): Promise<Running & { clock: { now: number } }> {
    const clock = { now: NOW };
    const access = new Access({
      antiLeech: { secret: 'FastDFS1234567890', ttlMs: 600_000 },
      now: () => clock.now,
    });
    const gateway = await running({ access });
    const { key } = await gateway.store.put('slice', { name: 'n.jpg' });
    gateway.store.settle(key, `group1/${name}`);
    return { ...gateway, clock };
  }

  test('is checked as the nginx module does', async () => {
    const gateway = await leeched();
    const token = (ts: number) => makeToken(name, 'FastDFS1234567890', ts);
    const status = async (query: string) =>
      (await call(gateway, 'GET', `/group1/${name}${query}`)).status;
    const good = `?token=${token(seconds)}&ts=${seconds}`;
    expect(await status(good)).toBe(200);
    expect(await status(`?token=${token(0)}&ts=0`)).toBe(200);
    expect(await status(`?token=${token(seconds + 999)}&ts=${seconds + 999}`)).toBe(200);
    const wrong = [
      '',
      `?token=${token(seconds)}`,
      `?ts=${seconds}`,
      `?token=&ts=`,
      `?token=${token(seconds)}&ts=${seconds + 1}`,
      `?token=${token(seconds).slice(1)}&ts=${seconds}`,
      `?token=${token(seconds)}&token=${token(seconds)}&ts=${seconds}`,
      `?token=${token(seconds)}&ts=-1`,
    ];
    for (const query of wrong) expect(await status(query), query).toBe(400);
    gateway.clock.now += 600_001 + 1000;
    expect(await status(good)).toBe(400);
    expect(await status(`?token=${token(0)}&ts=0`)).toBe(200);
  });

  test('leaves `filename` to the client, for an attachment of that name', async () => {
    const gateway = await running();
    const { key } = await gateway.store.put('slice', { name: 'n.jpg' });
    gateway.store.settle(key, `group1/${name}`);
    const named = await call(gateway, 'GET', `/group1/${name}?filename=h%C3%A9.jpg`);
    expect(named.headers.get('content-disposition')).toBe(
      `attachment; filename="h_.jpg"; filename*=UTF-8''h%C3%A9.jpg`,
    );
    const split = await call(gateway, 'GET', `/group1/${name}?filename=a%0d%0aX-Evil:%201`);
    expect(split.headers.has('x-evil')).toBe(false);
  });
});

test('secrets may have what editors and shells add to them', async () => {
  const given = { antiLeechSecret: 'FastDFS1234567890\n', urlSecret: [`\ufeff${SECRET}\r\n`] };
  const gateway = await openGateway(given);
  const { key } = await gateway.store.put('text', { name: 'a.txt' });
  await gateway.store.flush();
  const { fileId } = await gateway.store.stat(key);
  const seconds = Math.floor(Date.now() / 1000);
  const token = makeToken(fileId!.slice(fileId!.indexOf('/') + 1), 'FastDFS1234567890', seconds);
  expect((await fetch(`${gateway.url}/${fileId}?token=${token}&ts=${seconds}`)).status).toBe(200);
  const soon = new Date(Date.now() + 60_000);
  for (const secret of [SECRET, `${SECRET}\n`]) {
    expect((await fetch(gateway.url + signedDownload(secret, key, soon))).status).toBe(200);
  }
});
