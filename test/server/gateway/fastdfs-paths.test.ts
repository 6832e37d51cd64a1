import { FastdfsClient } from '@stevedore/fastdfs';
import { makeToken } from '@stevedore/protocol';
import { expect, onTestFinished, test, vi } from 'vitest';
import { started } from '../../support/gateway/tus.js';

/** The gateway in place of the FastDFS nginx module: files that others put into the cluster. */

const ANTI_LEECH = 'FastDFS1234567890';

/** The link to a file, as apps sign it for the module. */
function signed(base: string, id: string): string {
  const seconds = Math.floor(Date.now() / 1000);
  const token = makeToken(id.slice(id.indexOf('/') + 1), ANTI_LEECH, seconds);
  return `${base}/${id}?token=${token}&ts=${seconds}`;
}

async function withClient(antiLeechSecret = '') {
  const gateway = await started({ antiLeechSecret });
  const client = new FastdfsClient({ trackers: gateway.store.trackers });
  onTestFinished(() => client.close());
  return { gateway, client };
}

test('normal, slave and appender files answer as they are now', async () => {
  const { gateway, client } = await withClient();
  const master = await client.upload(Buffer.from('the master'), { extension: 'jpg' });
  const slave = await client.uploadSlave(master, '-150x150', Buffer.from('its thumbnail'), {
    extension: 'png',
  });
  const appender = await client.uploadAppender(Buffer.from('first '), { extension: 'txt' });
  const get = (id: string, headers: Record<string, string> = {}) =>
    fetch(`${gateway.url}/${id}`, { headers });
  const first = await get(master);
  expect(await first.text()).toBe('the master');
  expect(first.headers.get('content-type')).toBe('image/jpeg');
  const modified = first.headers.get('last-modified')!;
  const info = await client.info(master);
  expect(Date.parse(modified) / 1000).toBe(info.mtimeSeconds);
  expect((await get(master, { 'if-modified-since': modified })).status).toBe(304);
  const thumbnail = await get(slave);
  expect([await thumbnail.text(), thumbnail.headers.get('content-type')]).toEqual([
    'its thumbnail',
    'image/png',
  ]);
  const before = await get(appender);
  expect([await before.text(), before.headers.get('cache-control')]).toEqual([
    'first ',
    'public, no-cache',
  ]);
  await client.append(appender, Buffer.from('second'));
  const after = await get(appender, { 'if-none-match': before.headers.get('etag')! });
  expect([after.status, await after.text()]).toEqual([200, 'first second']);
  const pieces = await get(appender, { range: 'bytes=6-' });
  expect([pieces.status, await pieces.text()]).toEqual([206, 'second']);
  // A file that changes may have done so twice in the second that a date names.
  const { headers: now } = pieces;
  const since = (validator: string) => get(appender, { range: 'bytes=6-', 'if-range': validator });
  expect((await since(now.get('etag')!)).status).toBe(206);
  expect((await since(now.get('last-modified')!)).status).toBe(200);
  await client.delete(slave);
  expect((await get(slave)).status).toBe(404);
});

test('an appender that becomes shorter between two questions is asked for again', async () => {
  const { gateway, client } = await withClient();
  const { store } = gateway;
  const found = store.get.bind(store);
  for (const bytes of [1_000, 2 * 2 ** 20]) {
    const id = await client.uploadAppender(Buffer.alloc(bytes, 'x'), { extension: 'txt' });
    const shrinking = (times: number) => {
      let left = times;
      vi.spyOn(store, 'get').mockImplementation(async (...asked) => {
        const file = await found(...asked);
        if (left > 0) await client.truncate(id, Math.floor(file.size / 10));
        left -= 1;
        return file;
      });
    };
    const read = async () => {
      const answer = await fetch(`${gateway.url}/${id}`);
      return { status: answer.status, text: await answer.text() };
    };
    shrinking(1);
    expect(await read()).toEqual({ status: 200, text: 'x'.repeat(Math.floor(bytes / 10)) });
    shrinking(2);
    expect(await read()).toMatchObject({
      status: 503,
      text: expect.stringContaining('storage_unavailable'),
    });
    shrinking(1);
    const file = await store.get(id);
    await client.delete(id);
    await expect(file.bytes()).rejects.toMatchObject({ code: 'not_found' });
  }
});

test('only what browsers might run is an attachment unasked', async () => {
  const { gateway, client } = await withClient();
  const shown = async (extension: string, query = '') => {
    const id = await client.upload(Buffer.from('x'), { extension });
    const { headers } = await fetch(`${gateway.url}/${id}${query}`);
    return headers.get('content-disposition')?.split(';')[0];
  };
  for (const extension of ['css', 'bin', '', 'jpg', 'docx', 'woff2', 'json']) {
    expect([extension, await shown(extension)]).toEqual([extension, undefined]);
  }
  for (const extension of ['html', 'svg', 'xml', 'xhtml', 'js', 'eml']) {
    expect([extension, await shown(extension)]).toEqual([extension, 'attachment']);
  }
  expect(await shown('css', '?download')).toBe('attachment');
});

test('a path with doubled slashes is of the same file', async () => {
  const { gateway, client } = await withClient();
  for (const [method, group] of [
    ['GET', '//group1/'],
    ['GET', '///group1//'],
    ['HEAD', '/group1//'],
    ['DELETE', '//group1///'],
  ] as const) {
    const id = await client.upload(Buffer.from('hello'), { extension: 'txt' });
    expect((await fetch(`${gateway.url}/${id.replace('M00', 'M05')}`)).status).toBe(404);
    const path = id.replace('group1/', group).replace('M00/', 'M00//');
    const { status } = await fetch(gateway.url + path, { method });
    expect([method, group, status]).toEqual([method, group, method === 'DELETE' ? 204 : 200]);
  }
  expect((await fetch(`${gateway.url}//group1/M00/no-id`)).status).toBe(400);
  expect((await fetch(`${gateway.url}//files/no-key`)).status).toBe(404);
});

test('a doubled slash does not change the token of a path', async () => {
  const { gateway, client } = await withClient(ANTI_LEECH);
  const id = await client.upload(Buffer.from('guarded'), { extension: 'txt' });
  const url = signed(gateway.url, id).replace('/group1/', '//group1/');
  expect((await fetch(url)).status).toBe(200);
  expect((await fetch(`${gateway.url}//${id}`)).status).toBe(400);
  const twice = `${url}&ts=${new URL(url).searchParams.get('ts')}`;
  expect((await fetch(twice)).status).toBe(400);
});
