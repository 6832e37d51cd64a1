import { adoptOrigin } from '@stevedore/client/internal';
import { expect, it } from 'vitest';
import { deployedPair } from '../support/deployment.js';
import { soon } from '../support/soon.js';

it('two gateways read, delete and adopt files of each other', async () => {
  const { map, first, second } = await deployedPair();
  const call = async (url: string, path: string, method = 'GET', body?: string) => {
    const answer = await fetch(url + path, { method, ...(body === undefined ? {} : { body }) });
    return { status: answer.status, text: await answer.text() };
  };
  const upload = async (text: string): Promise<string> =>
    JSON.parse((await call(second.url, '/files', 'POST', text)).text).key;
  const [staged, gone, merged] = [
    await upload('staged'),
    await upload('gone'),
    await upload('merged'),
  ];
  const read = (key: string, at = first) => call(at.url, `/files/${key}`);

  expect(await read(staged)).toEqual({ status: 200, text: 'staged' });
  expect((await call(first.url, `/files/${gone}`, 'DELETE')).status).toBe(204);
  expect((await read(gone, second)).status).toBe(404);
  await second.store.flush();
  await soon(async () => expect(second.store.stats().map?.pending).toBe(0));
  const { origin } = second.store.deployment!;
  await second.close();

  expect(await read(merged)).toEqual({ status: 200, text: 'merged' });
  const report = await adoptOrigin({ map, origin, by: first.store.deployment!.origin });
  expect(report).toMatchObject({ origin, trunks: 1 });
  expect(await read(staged)).toEqual({ status: 200, text: 'staged' });
  expect((await call(first.url, `/files/${merged}`, 'DELETE')).status).toBe(204);
  expect(await read(gone)).toMatchObject({ status: 404 });
  expect(await read(merged)).toMatchObject({ status: 404 });
});
