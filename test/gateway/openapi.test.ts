import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { hasCommand, python, requirement } from '../support/requirements.js';
import { temporaryFolder } from '../support/temporary.js';
import { running } from './harness.js';

const REFERENCE = readFileSync(join(import.meta.dirname, '../../docs/REFERENCE.md'), 'utf8');

interface Description {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, { operationId: string }>>>>;
}

const policies = { avatars: { maxFileBytes: 100_000, types: ['image/*'] } };

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
        .replace('/uploads/avatars', '/uploads/NAME'),
    );
    const listed = REFERENCE.slice(0, REFERENCE.indexOf('## Errors'))
      .split('\n')
      .filter((line) => /^\| `(?:GET|POST|DELETE)/.test(line))
      .flatMap((line) => line.split('|')[1]!.match(/\/[^\s`,]*/g)!)
      .filter((path) => path !== '/' && path !== '/form-data');
    const unlisted = ['/openapi.json'];
    expect([...new Set(described)].sort()).toEqual(
      [...new Set(listed)].filter((path) => !unlisted.includes(path)).sort(),
    );
  });

  test('names each operation once, and every reference in it leads somewhere', async () => {
    const description = await describeApi();
    const ids = Object.values(description.paths).flatMap((path) =>
      Object.values(path).map(({ operationId }) => operationId),
    );
    expect(ids.every((id) => typeof id === 'string')).toBe(true);
    expect(new Set(ids).size).toBe(ids.length);
    const text = JSON.stringify(description);
    const { components } = description as unknown as { components: { schemas: object } };
    for (const [, name] of text.matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      expect(Object.keys(components.schemas)).toContain(name);
    }
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
  test('finds no answer that is not described', { timeout: 120_000 }, async () => {
    const { url, serverErrors } = await running({ policies });
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
    expect(stdout).toContain('Tested: 11');
    expect(serverErrors).toEqual([]);
  });
});
