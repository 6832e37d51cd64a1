import { join } from 'node:path';
import { Access } from '../../../gateway/dist/access/access.js';
import {
  type ApiKey,
  KeyRing,
  makeApiKey,
  writeKeyFile,
} from '../../../gateway/dist/access/api-keys.js';
import { temporaryFolder } from '../temporary.js';
import { type Running, running } from './harness.js';

/** A gateway that asks for API keys or signatures, at a moment that stands still. */

export const SECRET = 'a secret of the tests';
export const OLD_SECRET = 'the secret before it';
export const NOW = Date.parse('2026-03-04T05:06:07Z');

/** A file of these keys. */
export async function keyFile(...keys: readonly { readonly key: ApiKey }[]): Promise<string> {
  const path = join(temporaryFolder(), 'keys.json');
  await writeKeyFile(
    path,
    keys.map(({ key }) => key),
  );
  return path;
}

export interface Guarded extends Running {
  readonly path: string;
  readonly errors: unknown[];
  readonly clock: { now: number };
}

export function newKey(about: Partial<ApiKey> = {}): { key: ApiKey; text: string } {
  const scopes = about.scopes ?? (['read', 'write', 'delete'] as const);
  return makeApiKey({ name: 'test', ...about, scopes }, new Date(NOW));
}

export async function guarded(
  keys: readonly ApiKey[],
  urlSecrets: string[] = [],
): Promise<Guarded> {
  const path = await keyFile(...keys.map((key) => ({ key })));
  const clock = { now: NOW };
  const now = () => clock.now;
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const ring = await KeyRing.open({ path, now, onError });
  const gateway = await running({ access: new Access({ keys: ring, urlSecrets, now }) });
  return { ...gateway, path, errors, clock };
}

export async function call(
  { url }: Running,
  method: string,
  path: string,
  key?: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; code: unknown; headers: Headers; key: string }> {
  const authorization = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const response = await fetch(url + path, {
    method,
    headers: { ...authorization, ...headers },
    ...(method === 'POST' ? { body: 'x' } : {}),
  });
  const text = await response.text();
  const json = text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {};
  return {
    status: response.status,
    code: json.code,
    headers: response.headers,
    key: String(json.key),
  };
}
