import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { problemCodes } from '@stevedore/middleware/core';
import { describe, expect, test } from 'vitest';
import { running } from '../../support/gateway/harness.js';
import { ROOT } from '../../support/paths.js';
import { hasCommand, python, requirement } from '../../support/requirements.js';
import { temporaryFolder } from '../../support/temporary.js';

const REFERENCE = readFileSync(join(ROOT, 'docs/REFERENCE.md'), 'utf8');

interface Operation {
  readonly operationId: string;
  readonly responses: Readonly<Record<string, { $ref?: string; headers?: object } | undefined>>;
}

interface Description {
  readonly openapi: string;
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly responses: Readonly<Record<string, { headers?: object }>>;
    readonly schemas: Readonly<Record<string, { properties: Record<string, { enum: string[] }> }>>;
  };
}

/** Of the connection and the body, which HTTP itself describes, and of every answer. */
const EVERYWHERE: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'content-type',
  'date',
  'keep-alive',
  'transfer-encoding',
  'cache-control',
  'x-content-type-options',
  'x-request-id',
]);

const policies = { current: { avatars: { maxFileBytes: 100_000, types: ['image/*'] } } };

async function describeApi(): Promise<Description> {
  const { url } = await running({ policies });
  const answer = await fetch(`${url}/openapi.json`);
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  return (await answer.json()) as Description;
}

describe('the description of the API', () => {
  test('has every route of the reference, and no other', async () => {
    const { openapi, paths } = await describeApi();
    expect(openapi).toBe('3.1.0');
    const described = Object.keys(paths).map((path) =>
      path
        .replace('/{group}/{*}', '/group1/M00/…')
        .replace('{key}', 'KEY')
        .replace('{filename}', 'FILENAME')
        .replace('/uploads/{id}', '/uploads/NAME')
        .replace('{id}', 'ID')
        .replace('{name}', 'NAME'),
    );
    const listed = REFERENCE.slice(0, REFERENCE.indexOf('## Errors'))
      .split('\n')
      .filter((line) => /^\| `(?:GET|POST|PUT|DELETE)/.test(line))
      .flatMap((line) => line.split('|')[1]!.match(/\/[^\s`,?]*/g)!)
      .filter((path) => path !== '/' && path !== '/form-data');
    const unlisted = ['/openapi.json'];
    expect([...new Set(described)].sort()).toEqual(
      [...new Set(listed)].filter((path) => !unlisted.includes(path)).sort(),
    );
  });

  test('names the headers of answers, whatever the method', async () => {
    const gateway = await running({ policies });
    const api = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as Description;
    const { paths, components } = api;
    const put = (init: RequestInit = {}) => ({ method: 'POST', body: 'hello', ...init });
    const posted = await fetch(
      `${gateway.url}/files`,
      put({ headers: { 'idempotency-key': '1' } }),
    );
    const { key } = (await posted.json()) as { key: string };
    const range = { headers: { range: 'bytes=1-2' } };
    const requests: [path: string, url: string, init: RequestInit][] = [
      ['/files', '/files', put({ headers: { 'idempotency-key': '1' } })],
      ['/files', '/files', put({ headers: { 'content-md5': '?' } })],
      ['/uploads/{id}', '/uploads/avatars', put()],
      ['/files/{key}', `/files/${key}`, {}],
      ['/files/{key}', `/files/${key}`, { method: 'HEAD' }],
      ['/files/{key}', `/files/${key}`, range],
      ['/files/{key}', `/files/${key}`, { headers: { range: 'bytes=9-' } }],
      ['/files/{key}', `/files/${key}`, { headers: { 'if-none-match': '*' } }],
      ['/files/{key}', `/files/${key}`, { headers: { 'if-match': '"x"' } }],
      ['/files/{key}/{filename}', `/files/${key}/a.txt`, {}],
      ['/files/{key}/info', `/files/${key}/info`, { method: 'HEAD' }],
      ['/health/live', '/health/live', {}],
      ['/health/ready', '/health/ready', {}],
      ['/metrics', '/metrics', {}],
      ['/console/state', '/console/state', { method: 'HEAD' }],
      ['/console/history', '/console/history?span=day', {}],
      ['/console/file', `/console/file?id=${key}`, {}],
      ['/console/access', '/console/access', {}],
      ['/files/{key}', `/files/${key}`, { method: 'DELETE' }],
      ['/files/{key}', `/files/${key}`, { method: 'DELETE' }],
    ];
    for (const [path, url, init] of requests) {
      const answer = await fetch(gateway.url + url, init);
      await answer.arrayBuffer();
      const method = (init.method ?? 'GET').toLowerCase();
      const { responses } = (paths[path]![method] ?? paths[path]!.get)!;
      const about = `${method} ${path} ${answer.status}`;
      const given = responses[answer.status] ?? responses[`${String(answer.status)[0]}XX`];
      const name = given?.$ref?.split('/').at(-1);
      const found = name ? components.responses[name] : given;
      expect(found, about).toBeDefined();
      const named = Object.keys(found!.headers ?? {}).map((name) => name.toLowerCase());
      const sent = [...answer.headers.keys()].filter((name) => !EVERYWHERE.has(name));
      expect(named, about).toEqual(expect.arrayContaining(sent));
    }
  });

  test('has the methods that each path has', async () => {
    const { url } = await running({ policies });
    const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as Description;
    for (const [path, methods] of Object.entries(paths)) {
      const asked = path.replace('{group}/{*}', 'group1/M00/00/00/a.jpg').replace(/{\w+}/g, 'x');
      const answer = await fetch(url + asked, { method: 'QUERY' });
      const allowed = answer.headers.get('allow')?.toLowerCase().split(', ') ?? [];
      const described = Object.keys(methods);
      if (described.includes('get')) described.push('head');
      const unlisted = ['options'];
      expect(allowed.filter((each) => !unlisted.includes(each)).sort(), path).toEqual(
        described.sort(),
      );
    }
  });

  test('names each operation once, every code of a problem, and leads nowhere in vain', async () => {
    const description = await describeApi();
    const { version } = description.info;
    expect(version).toBe(
      JSON.parse(readFileSync(join(ROOT, 'gateway/package.json'), 'utf8')).version,
    );
    const { code } = description.components.schemas.Problem!.properties;
    expect(code!.enum).toEqual([...problemCodes()].sort());
    const ids = Object.values(description.paths).flatMap((path) =>
      Object.values(path).map(({ operationId }) => operationId),
    );
    expect(ids.every((id) => typeof id === 'string')).toBe(true);
    expect(new Set(ids).size).toBe(ids.length);
    const { components } = description as unknown as {
      components: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    };
    const text = JSON.stringify(description);
    const used = new Set([...text.matchAll(/"#\/components\/(\w+\/[^"]+)"/g)].map(([, it]) => it));
    const there = Object.entries(components)
      .filter(([kind]) => kind !== 'securitySchemes')
      .flatMap(([kind, all]) => Object.keys(all).map((name) => `${kind}/${name}`));
    expect([...used].sort()).toEqual(there.sort());
  });
});

const needsSchemathesis = requirement('the Python package schemathesis', () =>
  hasCommand(python, '-c', 'import schemathesis'),
);

/**
 * Requests made up from the description, within its bounds and beyond them: no answer
 * may be a failure of the server, or another one than the description allows.
 */
describe.skipIf(needsSchemathesis.missing)('schemathesis', () => {
  test('finds no answer that is not described', { timeout: 300_000 }, async () => {
    const { url, serverErrors } = await running({ policies });
    const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as Description;
    const operations = Object.values(paths).flatMap((path) => Object.keys(path));
    expect(operations.length).toBeGreaterThan(25);
    const checks = [
      'not_a_server_error',
      'status_code_conformance',
      'content_type_conformance',
      'response_headers_conformance',
      'response_schema_conformance',
      'unsupported_method',
      'use_after_free',
    ];
    const args = ['-m', 'schemathesis.cli', 'run', `${url}/openapi.json`];
    const bounds = ['--max-examples', '20', '--generation-deterministic', '--no-color'];
    const { stdout } = await promisify(execFile)(
      python,
      [...args, '--checks', checks.join(','), ...bounds],
      { cwd: temporaryFolder(), maxBuffer: 2 ** 24 },
    ).catch((error: { stdout?: string; message: string }) => {
      throw new Error(error.stdout ?? error.message);
    });
    expect(stdout).toContain(`Tested: ${operations.length}`);
    expect(serverErrors).toEqual([]);
  });
});
