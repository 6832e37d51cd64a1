import { join } from 'node:path';
import { connect } from '@stevedore/client/connect';
import type { Gateway, GatewayInput } from '@stevedore/gateway';
import { expect, it, onTestFinished } from 'vitest';
import { SCOPES } from '../../../gateway/dist/access/api-keys.js';
import { peerToken } from '../../../packages/client/dist/holders/peer-seals.js';
import { run } from '../../support/cli/run.js';
import { deployedGateway } from '../../support/deployment.js';
import { keyFile, newKey } from '../../support/gateway/guarded.js';
import { temporaryFolder } from '../../support/temporary.js';

/** A flush at one gateway stores what all gateways of the deployment have staged. */

async function deployment() {
  const admin = newKey({ scopes: SCOPES });
  const apiKeys = await keyFile(admin);
  const map = `sqlite:${join(temporaryFolder(), 'map.db')}`;
  const start = (input: GatewayInput) =>
    deployedGateway({ map, apiKeys, idMaxAge: '1h', ...input });
  const first = await start({});
  const at = ({ url }: Gateway) => {
    const store = connect({ url, apiKey: admin.text });
    onTestFinished(() => store.close());
    return store;
  };
  const env = { STEVEDORE_URL: first.url, STEVEDORE_API_KEY: admin.text };
  const trackers = first.store.trackers.join(',');
  return { first, at, env, trackers, start };
}

const stateOf = async ({ store }: Gateway, key: string) => (await store.stat(key)).state;

it('with all gateways there', async () => {
  const { first, at, trackers, start } = await deployment();
  const second = await start({ trackers });
  const one = await first.store.put('one');
  const other = await second.store.put('other');
  expect(await at(first).flush({ onlyHere: true })).toEqual({});
  expect([await stateOf(first, one.key), await stateOf(second, other.key)]).toEqual([
    'merged',
    'staged',
  ]);
  expect(await at(first).flush()).toEqual({});
  expect(await stateOf(second, other.key)).toBe('merged');
  expect((await second.store.stat(other.key)).fileId).toBeDefined();
  const again = await second.store.put('again');
  expect(await first.store.flush()).toEqual({});
  expect(await stateOf(second, again.key)).toBe('merged');
});

it('says which one is away', async () => {
  const { first, at, env, trackers, start } = await deployment();
  const second = await start({ trackers });
  const { origin } = second.store.deployment!;
  await second.close();
  const { key } = await first.store.put('here');
  expect(await at(first).flush()).toEqual({ away: [origin] });
  expect(await stateOf(first, key)).toBe('merged');
  const { code, stderr } = await run(['flush'], { env });
  expect([code, stderr]).toEqual([1, expect.stringContaining(`origins ${origin}`)]);
});

it('fails with the reason of one that cannot store it in time', async () => {
  const { first, at, start } = await deployment();
  const second = await start({ trackers: '127.0.0.1:1' });
  const there = await second.store.put('there');
  const { key } = await first.store.put('here');
  await expect(at(first).flush({ timeoutMs: 2_000 })).rejects.toMatchObject({
    code: 'storage_unavailable',
    message: expect.stringMatching(/1 files still wait after 2000 ms.*127\.0\.0\.1:1.*\/peer/s),
  });
  expect(await stateOf(first, key)).toBe('merged');
  expect(await stateOf(second, there.key)).not.toBe('merged');
  const aborted = first.store.flush({ signal: AbortSignal.timeout(200) });
  await expect(aborted).rejects.toMatchObject({ code: 'aborted' });
});

it('is asked for by a gateway of the deployment, or by an admin', async () => {
  const { first } = await deployment();
  const { key } = await first.store.put('here');
  const flush = async (token?: string) => {
    const headers: Record<string, string> = token === undefined ? {} : { 'stevedore-peer': token };
    return (await fetch(`${first.url}/peer/flush`, { method: 'POST', headers })).status;
  };
  expect(await flush()).toBe(404);
  expect(await flush(peerToken(first.store.deployment!, 'GET', '/peer/flush'))).toBe(404);
  expect(await stateOf(first, key)).toBe('staged');
  expect(await flush(peerToken(first.store.deployment!, 'POST', '/peer/flush'))).toBe(200);
  expect(await stateOf(first, key)).toBe('merged');
});
