import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { makeLog, redactUrl } from '../../../gateway/dist/observe/log.js';
import { type Running, raw, running } from '../../support/gateway/harness.js';

async function metricsOf({ url }: Running): Promise<string> {
  const answer = await fetch(`${url}/metrics`);
  expect(answer.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
  return answer.text();
}

function figure(metrics: string, series: string): number {
  const line = metrics.split('\n').find((each) => each.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1));
}

const DURATIONS = 'stevedore_http_request_duration_seconds';

test('requests are counted by route and status, and timed', async () => {
  const gateway = await running();
  const posted = await fetch(`${gateway.url}/files`, { method: 'POST', body: 'hello' });
  const { key } = (await posted.json()) as { key: string };
  for (let count = 0; count < 3; count++) {
    await (await fetch(`${gateway.url}/files/${key}`)).arrayBuffer();
  }
  await fetch(`${gateway.url}/files/${'A'.repeat(22)}`);
  const metrics = await metricsOf(gateway);
  const count = (method: string, route: string, status: number) =>
    figure(metrics, `${DURATIONS}_count{method="${method}",route="${route}",status="${status}"}`);
  expect(count('POST', '/files', 201)).toBe(1);
  expect(count('GET', '/files/:key', 200)).toBe(3);
  expect(count('GET', '/files/:key', 404)).toBe(1);
  const all = `method="GET",route="/files/:key",status="200"`;
  expect(figure(metrics, `${DURATIONS}_bucket{${all},le="+Inf"}`)).toBe(3);
  expect(figure(metrics, `${DURATIONS}_sum{${all}}`)).toBeGreaterThan(0);
  expect(metrics).toMatch(/^stevedore_http_connections \d+$/m);
});

test('what is refused before it has a route is counted and logged', async () => {
  const lines: string[] = [];
  const log = makeLog('info', 'json', { write: (line: string) => void lines.push(line) });
  const gateway = await running({ log });
  await raw(gateway.port, 'no HTTP at all\r\n\r\n');
  await raw(gateway.port, `GET / HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(20_000)}\r\n\r\n`);
  await raw(gateway.port, 'GET /%ff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  const metrics = await metricsOf(gateway);
  expect(figure(metrics, 'stevedore_http_refused_total{code="headers_too_large"}')).toBe(1);
  expect(figure(metrics, 'stevedore_http_refused_total{code="bad_request"}')).toBe(2);
  const refused = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'refused');
  expect(refused.map(({ code, client }) => [code, client])).toEqual([
    ['bad_request', '127.0.0.1'],
    ['headers_too_large', '127.0.0.1'],
    ['bad_request', '127.0.0.1'],
  ]);
});

test('nothing that a client sends becomes a label, and no client makes series', async () => {
  const gateway = await running();
  const visit = async (round: number) => {
    const secret = `s3cret${round}${randomBytes(8).toString('hex')}`;
    for (const path of [secret, `files/${secret}`, `files?token=${secret}`, `${secret}/M00/x`]) {
      for (const method of ['GET', 'PUT', 'DELETE', 'OPTIONS']) {
        const headers = { 'x-request-id': secret, 'user-agent': secret };
        await fetch(`${gateway.url}/${path}`, { method, headers });
      }
    }
    await raw(gateway.port, `PURGE /${secret} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  };
  await visit(0);
  await metricsOf(gateway);
  const series = (await metricsOf(gateway)).split('\n').length;
  for (let round = 1; round < 10; round++) await visit(round);
  const after = await metricsOf(gateway);
  expect(after.split('\n').length).toBe(series);
  expect(after).not.toContain('s3cret');
});

test('the figures of the store are read when they are asked for', async () => {
  const gateway = await running();
  const trunk = { taskId: 't', fileId: 'f', files: 12, bytes: 1000, fill: 0.97, durationMs: 700 };
  gateway.store.emit('trunk', { ...trunk, kind: 'trunk' });
  gateway.store.emit('trunk', { ...trunk, kind: 'whole', files: 1, fill: 1 });
  gateway.store.emit(
    'error',
    Object.assign(new Error('away'), { name: 'FastdfsError', code: 'no_tracker' }),
  );
  gateway.store.emit('error', new Error('from a "client"\n'));
  await fetch(`${gateway.url}/files`, { method: 'POST', body: 'hello' });
  const metrics = await metricsOf(gateway);
  expect(figure(metrics, 'stevedore_uploaded_files_total')).toBe(1);
  expect(figure(await metricsOf(gateway), 'stevedore_uploaded_files_total')).toBe(1);
  expect(figure(metrics, 'stevedore_staged_files')).toBe(1);
  expect(figure(metrics, 'stevedore_trunk_fill_ratio_bucket{le="0.95"}')).toBe(0);
  expect(figure(metrics, 'stevedore_trunk_fill_ratio_bucket{le="0.99"}')).toBe(1);
  expect(figure(metrics, 'stevedore_trunk_fill_ratio_count')).toBe(1);
  expect(figure(metrics, 'stevedore_stored_files_total{kind="trunk"}')).toBe(12);
  expect(figure(metrics, 'stevedore_stored_files_total{kind="whole"}')).toBe(1);
  expect(figure(metrics, 'stevedore_background_errors_total{code="no_tracker"}')).toBe(1);
  expect(figure(metrics, 'stevedore_background_errors_total{code="other"}')).toBe(1);
});

test('a request keeps the id that a proxy gave it if it is well formed, and gets one if not', async () => {
  const { url } = await running();
  const idOf = async (id?: string) => {
    const headers = id === undefined ? {} : { 'x-request-id': id };
    return (await fetch(`${url}/health/live`, { headers })).headers.get('x-request-id');
  };
  for (const id of ['a', 'f47ac10b-58cc-4372-a567-0e02b2c3d479', 'Root:1.2_3', 'x'.repeat(64)]) {
    expect(await idOf(id)).toBe(id);
  }
  const own = new Set<string | null>();
  for (const id of [undefined, '', 'x'.repeat(65), 'a b', '"', 'a,b', '{"level":"x"}', '-x', 'ä']) {
    const given = await idOf(id);
    expect(given).toMatch(/^[A-Za-z0-9][A-Za-z0-9_-]{7}-[a-z0-9]+$/);
    own.add(given);
  }
  expect(own.size).toBe(9);
});

test('the log has a line for every request, and no secret in it', async () => {
  const lines: string[] = [];
  const log = makeLog('info', 'json', { write: (line) => void lines.push(line) });
  const { url, store } = await running({ log });
  const posted = await fetch(
    `${url}/files?token=s3cret1&a=b&X-Signature=s3cret5&signature=s3cret2`,
    {
      method: 'POST',
      body: 'hello',
      headers: {
        authorization: 'Bearer s3cret3',
        cookie: 's3cret4',
        'x-request-id': 'of-the-proxy',
      },
    },
  );
  const { key } = (await posted.json()) as { key: string };
  await fetch(`${url}/files/${key}/photo.jpg`);
  store.failure = new Error('nobody expected this');
  await fetch(`${url}/files/${key}`);
  const entries = lines.map((line) => JSON.parse(line));
  expect(entries[0]).toMatchObject({
    level: 'info',
    requestId: 'of-the-proxy',
    method: 'POST',
    url: '/files?token=***&a=b&X-Signature=***&signature=***',
    status: 201,
    client: '127.0.0.1',
    ms: expect.any(Number),
  });
  expect(entries[1].url).toBe(`/files/${key.slice(0, 8)}***/photo.jpg`);
  expect(entries[2]).toMatchObject({
    level: 'error',
    requestId: entries[3].requestId,
    err: { message: 'nobody expected this', stack: expect.any(String) },
  });
  expect(entries[3]).toMatchObject({ status: 500 });
  expect(lines.join('')).not.toMatch(/s3cret/);
  expect(lines.join('')).not.toContain(key);
});

test('secrets are struck out of headers too, should they be logged', () => {
  const lines: string[] = [];
  const log = makeLog('info', 'json', { write: (line) => void lines.push(line) });
  log.info({ headers: { authorization: 's3cret', accept: 'x' } });
  log.info({ request: { headers: { authorization: 's3cret' } }, authorization: 's3cret' });
  expect(lines.join('')).not.toContain('s3cret');
  expect(lines.join('')).toContain('accept');
});

test('what is struck out of a URL', () => {
  const key = 'AaH8xyzw0123456789abcA';
  expect(redactUrl(`/files/${key}`)).toBe('/files/AaH8xyzw***');
  expect(redactUrl(`/files/${key}/info?sig=1#x`)).toBe('/files/AaH8xyzw***/info?sig=***#x');
  expect(redactUrl('/files/short')).toBe('/files/short');
  expect(redactUrl('/a?tokens=1&TOKEN=2&api-key=3&token=')).toBe(
    '/a?tokens=1&TOKEN=***&api-key=***&token=***',
  );
  expect(redactUrl(`/${'x'.repeat(9000)}`).length).toBe(2048);
});

test('what is struck out of a URL that is not as it should be', () => {
  const key = 'AaH8xyzw0123456789abcA';
  const escaped = [...key].map((char) => `%${char.charCodeAt(0).toString(16)}`).join('');
  const struck = 'AaH8xyzw***';
  expect(redactUrl(`/files/${escaped}`)).toBe(`/files/${struck}`);
  expect(redactUrl(`/file/${key}`)).toBe(`/file/${struck}`);
  expect(redactUrl(`/files//${key}/a.jpg`)).toBe(`/files//${struck}/a.jpg`);
  expect(redactUrl(`/login?next=%2Ffiles%2F${key}`)).toBe(`/login?next=/files/${struck}`);
  expect(redactUrl('/files/short?%73ignature=abc')).toBe('/files/short?signature=***');
  // Another `=` or `&` would end what is struck out.
  expect(redactUrl('/a?token=b%26c%3Dd')).toBe('/a?token=***');
  // Not half a key at the end either.
  expect(redactUrl(`/${'x'.repeat(2047 - 20)}/${key}`)).not.toContain('xyzw0');
  const secret = 'r_-Q2'.repeat(9).slice(0, 43);
  expect(redactUrl(`/a/stv_aX13GuaFsjeE_${secret};b`)).toBe('/a/stv_aX13GuaFsjeE_***;b');
});
