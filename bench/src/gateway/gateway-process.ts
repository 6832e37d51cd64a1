import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Gateway, startGateway } from '@stevedore/gateway';
import { signedDownload } from '@stevedore/middleware/core';
import { serve } from '../harness/serve.js';
import { FILE_BYTES, FILES } from './plan.js';
import { fileBytes, type ServerHandlers, type Started, type StartOptions } from './server.js';

/**
 * The gateway as `stevedore gateway` starts it, with its embedded tracker and
 * storage; trunks so large that nothing is merged while it is measured. Checked: an
 * API key with a rate, a policy with types and first bytes, signed URLs.
 */

const SECRET = 'the secret of the benchmark';

let gateway: Gateway | undefined;

const handlers: ServerHandlers = {
  async start({ directory, checked }: StartOptions): Promise<Started> {
    await mkdir(directory, { recursive: true });
    const guards = checked ? await writeGuards(directory) : undefined;
    gateway = await startGateway({
      directory: join(directory, 'data'),
      port: 0,
      trackerPort: 0,
      storagePort: 0,
      trunkSize: '2GiB',
      mergeMaxAge: '1h',
      ...guards?.options,
    });
    const { store } = gateway;
    const expiresAt = new Date(Date.now() + 86_400_000);
    const paths: string[] = [];
    for (let index = 0; index < FILES; index += 1) {
      const file = { name: `${index}.png`, type: 'image/png' };
      const { key } = await store.put(fileBytes(FILE_BYTES), file);
      paths.push(checked ? signedDownload(SECRET, key, expiresAt) : `/files/${key}`);
    }
    return {
      port: Number(new URL(gateway.url).port),
      uploadHeaders: guards ? `Authorization: Bearer ${guards.key}\r\n` : '',
      uploadPath: '/files',
      paths,
    };
  },
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
