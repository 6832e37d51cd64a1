import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '@stevedore/client/connect';
import { startGateway } from '@stevedore/gateway';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { adapters } from './adapters.js';

/** An app in front of a gateway: its store is that of `connect()`. */

const directory = mkdtempSync(join(tmpdir(), 'stevedore-connected-'));
const ports = { port: 0, trackerPort: 0, storagePort: 0, logLevel: 'silent' } as const;
const gateway = await startGateway({ directory, ...ports });
const store = connect({ url: gateway.url });
const behind = gateway.store;
afterAll(async () => {
  await store.close();
  await gateway.close();
  rmSync(directory, { recursive: true });
});

test.each(adapters)(
  '$name stores at a gateway what it takes, once, and serves it',
  async ({ start, formsOnly = false }) => {
    const { acknowledgedFiles: before } = behind.stats();
    const app = await start(store, {});
    onTestFinished(() => app.close());
    const bytes = randomBytes(3_000_000);
    const post = async (key: string) => {
      const form = new FormData();
      form.append('photo', new File([bytes], 'ä.bin', { type: 'application/x-photo' }));
      const body = formsOnly ? { body: form } : { body: bytes };
      return fetch(app.url, {
        method: 'POST',
        headers: formsOnly ? {} : { 'idempotency-key': key, 'content-type': 'application/x-photo' },
        ...body,
      });
    };
    const answers = [await post('same'), ...(formsOnly ? [] : [await post('same')])];
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
    const keys = await Promise.all(answers.map(async (one) => app.keysOf(await one.json())));
    expect(new Set(keys.flat()).size).toBe(1);
    expect(behind.stats().acknowledgedFiles).toBe(before + 1);
    const [key] = keys[0]!;
    if (formsOnly) return;
    const whole = await fetch(`${app.url}/${key}`);
    expect(whole.headers.get('content-type')).toBe('application/x-photo');
    expect(Buffer.from(await whole.arrayBuffer()).equals(bytes)).toBe(true);
    const part = await fetch(`${app.url}/${key}`, { headers: { range: 'bytes=1000000-2500000' } });
    expect(part.status).toBe(206);
    const range = Buffer.from(await part.arrayBuffer());
    expect(range.equals(bytes.subarray(1_000_000, 2_500_001))).toBe(true);
    const again = await fetch(`${app.url}/${key}`, {
      headers: { 'if-none-match': whole.headers.get('etag')! },
    });
    expect(again.status).toBe(304);
    expect((await fetch(`${app.url}/${key!.replace(/./, 'B')}`)).status).toBe(404);
  },
);
