import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import {
  type ApiKey,
  changeKeyFile,
  makeApiKey,
  readKeyFile,
  SCOPES,
} from '../../../gateway/dist/access/api-keys.js';
import { soon } from '../../support/soon.js';
import { openGateway } from '../../support/store.js';
import { temporaryFolder } from '../../support/temporary.js';

/** API keys and policies of two gateways, each with files of its own, and one map. */

function newKey(name: string) {
  return makeApiKey({ name, scopes: SCOPES }, new Date());
}

/** A gateway of the deployment in that folder. */
function server(folder: string) {
  const directory = temporaryFolder();
  const [apiKeys, policies] = [join(directory, 'keys.json'), join(directory, 'policies.json')];
  const map = `sqlite:${join(folder, 'map.db')}`;
  const start = () => openGateway({ directory: join(directory, 'data'), apiKeys, policies, map });
  const add = (key: ApiKey) => changeKeyFile(apiKeys, (keys) => [...keys, key]);
  return { apiKeys, policies, start, add };
}

const status = async (url: string, key: string, path = '/files') =>
  (await fetch(`${url}${path}`, { headers: { 'x-api-key': key } })).status;

it('are the same at all, whoever changes them, and a revoked key stays revoked', async () => {
  const folder = temporaryFolder();
  const [first, second] = [server(folder), server(folder)];
  const [one, two] = [newKey('one'), newKey('two')];
  await first.add(one.key);
  await writeFile(first.policies, '{"avatars":{"maxFileSize":"1KiB"}}');
  const here = await first.start();
  // A gateway that has no files yet finds them in the map.
  const there = await second.start();
  expect(await status(there.url, one.text)).toBe(200);
  expect(JSON.parse(await readFile(second.policies, 'utf8'))).toEqual({
    avatars: { maxFileSize: '1KiB' },
  });
  // A key that a command adds to the file of one is good at the other.
  await second.add(two.key);
  await soon(async () => expect(await status(here.url, two.text)).toBe(200));
  // A key that a request revokes at one is revoked at the other.
  const revoked = await fetch(`${here.url}/keys/${one.key.id}`, {
    method: 'DELETE',
    headers: { 'x-api-key': two.text },
  });
  expect(revoked.status).toBe(204);
  await soon(async () => expect(await status(there.url, one.text)).toBe(401));
  expect((await readKeyFile(second.apiKeys)).map(({ id }) => id)).toEqual([two.key.id]);
  // An old file does not bring it back, at a third gateway either.
  const third = server(folder);
  await third.add(one.key);
  // Nor does it give another key rights back.
  await third.add(two.key);
  const narrow = (keys: readonly ApiKey[]) =>
    keys.map((key) => ({ ...key, scopes: ['list', 'admin'] as const }));
  await changeKeyFile(first.apiKeys, narrow);
  await soon(async () =>
    expect((await readKeyFile(second.apiKeys))[0]?.scopes).toEqual(['list', 'admin']),
  );
  await writeFile(third.policies, '{}');
  const last = await third.start();
  expect(await status(last.url, one.text)).toBe(401);
  expect(await status(last.url, two.text)).toBe(200);
  expect((await readKeyFile(third.apiKeys))[0]?.scopes).toEqual(['list', 'admin']);
  expect((await readKeyFile(first.apiKeys))[0]?.scopes).toEqual(['list', 'admin']);
  // A policy may come back.
  for (const text of ['{}', '{"avatars":{"maxFiles":2}}']) {
    await writeFile(second.policies, text);
    await soon(async () =>
      expect(JSON.parse(await readFile(third.policies, 'utf8'))).toEqual(JSON.parse(text)),
    );
  }
});

it('may change while a gateway is stopped', async () => {
  const folder = temporaryFolder();
  const [first, second] = [server(folder), server(folder)];
  const [one, two] = [newKey('one'), newKey('two')];
  await first.add(one.key);
  await first.add(two.key);
  for (const { policies } of [first, second]) await writeFile(policies, '{}');
  const here = await first.start();
  await (await second.start()).close();
  // By hand, in the file of the one that is stopped.
  await changeKeyFile(second.apiKeys, (keys) => keys.filter(({ id }) => id !== one.key.id));
  const again = await second.start();
  await soon(async () => expect(await status(here.url, one.text)).toBe(401));
  expect(await status(here.url, two.text)).toBe(200);
  await again.close();
});
