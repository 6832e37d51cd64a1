import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Gateway, startGateway } from '@stevedore/gateway';
import { signedDownload } from '@stevedore/middleware/core';
import { drive } from '../harness/load.js';
import { serve } from '../harness/serve.js';
import {
  FILE_TYPE,
  fileText,
  readBytes,
  type ServerHandlers,
  type Started,
  type StartOptions,
  type Stored,
} from './server.js';

/**
 * The gateway as `stevedore gateway` starts it, with its embedded tracker and
 * storage; trunks so large that nothing is merged while it is measured. Checked: an
 * API key with a rate, a policy with types and first bytes, signed URLs.
 */

const SECRET = 'the secret of the benchmark';

const STORE_CONCURRENCY = 64;
const SIGNED_MS = 86_400_000;

let gateway: Gateway | undefined;
let isChecked = false;
let stored = 0;

const handlers: ServerHandlers = {
  async start({ directory, checked, cacheBytes }: StartOptions): Promise<Started> {
    await mkdir(directory, { recursive: true });
    const guards = checked ? await writeGuards(directory) : undefined;
    gateway = await startGateway({
      directory: join(directory, 'data'),
      port: 0,
      trackerPort: 0,
      storagePort: 0,
      trunkSize: '2GiB',
      mergeMaxAge: '1h',
      ...(cacheBytes === undefined ? {} : { cacheSize: `${cacheBytes}B` }),
      ...guards?.options,
    });
    isChecked = checked;
    return {
      port: Number(new URL(gateway.url).port),
      headers: guards ? { authorization: `Bearer ${guards.key}` } : {},
    };
  },
  async store(count) {
    const expiresAt = new Date(Date.now() + SIGNED_MS);
    const files: Stored[] = [];
    await drive({ operations: count, concurrency: STORE_CONCURRENCY }, async () => {
      const number = stored;
      stored += 1;
      const about = { name: `${number}.gif`, type: FILE_TYPE };
      const { key } = await gateway!.store.put(Buffer.from(fileText(number)), about);
      const path = isChecked ? signedDownload(SECRET, key, expiresAt) : `/files/${key}`;
      files.push({ path, number });
    });
    return files;
  },
  readBytes,
};

async function writeGuards(directory: string) {
  const { makeApiKey, writeKeyFile } = await import('@stevedore/gateway');
  const about = { name: 'bench', scopes: ['write'] as const, requestsPerSecond: 1e6 };
  const { key, text } = makeApiKey({ ...about, bytesPerDay: 1e15 }, new Date());
  const apiKeys = join(directory, 'keys.json');
  const policies = join(directory, 'policies.json');
  await writeKeyFile(apiKeys, [key]);
  const policy = { maxFileSize: '1MiB', maxFiles: 10, types: ['image/*'], checkContent: true };
  await writeFile(policies, JSON.stringify({ default: policy }));
  return { key: text, options: { apiKeys, policies, urlSecret: SECRET } };
}

serve(handlers, async () => gateway?.close());
