import { randomBytes } from 'node:crypto';
import type { Agent } from 'node:http';
import { join } from 'node:path';
import { connect } from '@stevedore/client/connect';
import type { Gateway } from '@stevedore/gateway';
import { expect, it, onTestFinished } from 'vitest';
import { SCOPES, writeKeyFile } from '../../../gateway/dist/access/api-keys.js';
import { peerToken } from '../../../packages/client/dist/holders/peer-seals.js';
import { run } from '../../support/cli/run.js';
import { deployedGateway, deployedPair } from '../../support/deployment.js';
import { freePort } from '../../support/free-port.js';
import { keyFile, newKey } from '../../support/gateway/guarded.js';
import { ask, connections } from '../../support/gateway/workers/asking.js';
import { startGatewayProcess } from '../../support/gateway-process.js';
import { soon } from '../../support/soon.js';
import { ofSuite, ofTest, temporaryFolder } from '../../support/temporary.js';

/** Every gateway of a deployment lists the files of all, and says whose are missing. */

async function pair(atTheEnd = ofTest) {
  const all = newKey({ scopes: SCOPES });
  const apiKeys = join(temporaryFolder(atTheEnd), 'keys.json');
  await writeKeyFile(apiKeys, [all.key]);
  const { first, second } = await deployedPair({ apiKeys, idMaxAge: '1h' }, {}, atTheEnd);
  const at = ({ url }: Gateway) => {
    const store = connect({ url, apiKey: all.text });
    onTestFinished(() => store.close());
    return store;
  };
  const ask = ({ url }: Gateway, query: string, method = 'GET') =>
    fetch(`${url}/files?${query}`, { method, headers: { 'x-api-key': all.text } });
  const ls = ({ url }: Gateway, ...args: string[]) =>
    run(args, { env: { STEVEDORE_URL: url, STEVEDORE_API_KEY: all.text } });
  return { first, second, at, ask, ls };
}

const shared = await pair(ofSuite);

it('what is staged or merged at one gateway is listed at the other one, in order', async () => {
  const { first, second, at } = shared;
  const names: string[] = [];
  for (let each = 0; each < 12; each += 1) {
    const { store } = each % 3 === 0 ? second : first;
    const group = each % 2 === 0 ? 'album' : 'other';
    names.push(`${each}`);
    await store.put(randomBytes(100), { name: `${each}`, group, type: 'text/plain' });
    // Some are merged, some of each gateway are not.
    if (each === 5) await first.store.flush();
  }
  const [one, other] = [at(first), at(second)];
  for (const limit of [1, 5, 1000]) {
    for (const store of [one, other]) {
      const seen: string[] = [];
      for (let after: string | undefined; ; ) {
        const page = await store.list({ limit, ...(after === undefined ? {} : { after }) });
        expect(page.away).toBeUndefined();
        seen.push(...page.files.map(({ name }) => name));
        after = page.next;
        if (after === undefined) break;
      }
      expect(seen.toSorted()).toEqual(names.toSorted());
    }
  }
  const { files } = await other.list({ group: 'album' });
  expect(files).toEqual((await one.list({ group: 'album' })).files);
  expect(files.map(({ name }) => name).toSorted()).toEqual(['0', '10', '2', '4', '6', '8']);
  // The facts are those that the file's own gateway has.
  for (const { key } of files) expect(files).toContainEqual(await one.stat(key));
  await second.store.put('x', { group: 'last' });
  for (const store of [one, other]) {
    expect(await store.groups()).toEqual({ groups: ['album', 'last', 'other'] });
    const rest = await store.groups({ after: 'album', limit: 1 });
    expect(rest).toEqual({ groups: ['last'], next: 'last' });
  }
  expect(await one.groups({ onlyHere: true })).toEqual({ groups: ['album', 'other'] });
  const here = await one.list({ onlyHere: true });
  expect(here.files).toHaveLength(8);
  // What is deleted here is listed here no more, though the other gateway may not know yet.
  await one.delete(files[0]!.key);
  const left = await one.list({ group: 'album' });
  expect(left.files).toEqual(files.slice(1));
});

it('a group is sent as one ZIP, and deleted, wherever its files are', async () => {
  const { first, second, ask, ls } = shared;
  for (const { store } of [first, second]) {
    await store.put('content', { name: 'same.txt', group: 'zipped' });
  }
  const zip = await ask(second, 'group=zipped&format=zip');
  expect(zip.status).toBe(200);
  const bytes = Buffer.from(await zip.arrayBuffer());
  // The end of a ZIP says how many entries its directory has.
  expect(bytes.readUInt16LE(bytes.lastIndexOf('PK\x05\x06') + 10)).toBe(2);
  const listed = await ls(first, 'ls', '--group', 'zipped', '--keys');
  expect([listed.code, listed.stdout.trimEnd().split('\n').length]).toEqual([0, 2]);
  expect(await (await ask(first, 'group=zipped', 'DELETE')).json()).toEqual({ deleted: 2 });
  for (const each of [first, second]) {
    await soon(async () => {
      expect(await (await ask(each, 'group=zipped')).json()).toEqual({ files: [] });
    });
  }
});

it('while a gateway is away the others say whose files are missing', async () => {
  const { first, second, ask, ls } = await pair();
  const { key } = await first.store.put('here', { name: 'here', group: 'album' });
  await second.store.put('there', { name: 'there', group: 'album' });
  const { origin } = second.store.deployment!;
  await second.close();
  const answer = (await (await ask(first, 'group=album')).json()) as { files: { key: string }[] };
  expect(answer).toMatchObject({ files: [{ key }], away: [origin] });
  // A ZIP cannot say so.
  const zip = await ask(first, 'group=album&format=zip');
  expect([zip.status, ((await zip.json()) as { code: string }).code]).toEqual([
    503,
    'storage_unavailable',
  ]);
  expect((await ask(first, 'group=album&format=zip&only-here=true')).status).toBe(200);
  expect((await ask(first, 'only-here=perhaps')).status).toBe(400);
  const listed = await ls(first, 'ls', '--keys');
  expect([listed.code, listed.stdout]).toEqual([1, `${key}\n`]);
  expect(listed.stderr).toContain(String(origin));
  const groups = await ls(first, 'ls', '--groups');
  expect([groups.code, groups.stdout]).toEqual([1, 'album\n']);
  expect(groups.stderr).toMatch(new RegExp(`^groups are missing: .*${origin}`));
  const removed = await ls(first, 'rm', '--group', 'album');
  expect(removed.code).toBe(1);
  expect(removed.stderr).toContain('deleted 1 file\n');
  expect(removed.stderr).toContain(String(origin));
});

it('only a gateway of the deployment lists files without an API key', async () => {
  const { first, second, at } = shared;
  await first.store.put('first');
  await second.store.put('second');
  const path = '/peer/files?limit=10';
  const list = (token?: string, at = path) =>
    fetch(first.url + at, token === undefined ? {} : { headers: { 'stevedore-peer': token } });
  expect((await list(undefined, '/peer/groups')).status).toBe(404);
  const token = peerToken(first.store.deployment!, 'GET', path);
  for (const wrong of [undefined, 'A'.repeat(43)]) expect((await list(wrong)).status).toBe(404);
  expect((await list(token, `${path}0`)).status).toBe(404);
  // One hop: it lists its own files alone.
  const { files } = (await (await list(token)).json()) as { files: unknown[] };
  expect(files).toHaveLength((await at(first).list({ onlyHere: true })).files.length);
});

it('workers behind one URL are asked once, and each of their files is listed once', async () => {
  const all = newKey({ scopes: SCOPES });
  const apiKeys = await keyFile(all);
  const map = `sqlite:${join(temporaryFolder(), 'map.db')}`;
  const port = String(await freePort());
  const first = await startGatewayProcess(
    ...[temporaryFolder(), '--workers', '2', '--map', map, '--api-keys', apiKeys],
    ...['--merge-max-age', '1h', '--port', port, '--peer-url', `http://127.0.0.1:${port}`],
  );
  const trackers = `127.0.0.1:${first.trackerPort}`;
  const second = await deployedGateway({ map, apiKeys, trackers });
  const headers = { 'x-api-key': all.text };
  const expected: string[] = [];
  const agents = new Map<string, Agent[]>();
  for (const [gateway, processes] of [
    [first, 2],
    [second, 1],
  ] as const) {
    const { url } = gateway;
    agents.set(url, await connections({ url }, processes));
    for (const agent of agents.get(url)!) {
      const group = `group ${expected.length}`;
      const grouped = { ...headers, 'x-affinity-group': group };
      const sent = { method: 'POST', body: 'x', headers: grouped, agent };
      const { body } = await ask(url, '/files', sent);
      expected.push((JSON.parse(body.toString()) as { key: string }).key);
    }
  }
  for (const [url, each] of agents) {
    for (const agent of each) {
      await soon(async () => {
        const { body } = await ask(url, '/files', { headers, agent });
        const page = JSON.parse(body.toString()) as { files: { key: string }[]; away?: number[] };
        expect(page.files.map(({ key }) => key).toSorted()).toEqual(expected.toSorted());
        expect(page.away).toBeUndefined();
      });
      const { body } = await ask(url, '/groups', { headers, agent });
      expect(JSON.parse(body.toString())).toEqual({ groups: ['group 0', 'group 1', 'group 2'] });
    }
  }
  // At one worker, for all of both gateways.
  const flushed = await ask(first.url, '/flush', { method: 'POST', headers });
  expect([flushed.status, flushed.body.toString()]).toEqual([200, '{}']);
  for (const key of expected) {
    const { body } = await ask(second.url, `/files/${key}/info`, { headers });
    expect(JSON.parse(body.toString())).toMatchObject({ state: 'merged' });
  }
});
