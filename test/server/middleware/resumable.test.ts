import type { RequestListener } from 'node:http';
import type { FileStore } from '@stevedore/client';
import * as forExpress from '@stevedore/middleware/express';
import { stevedore } from '@stevedore/middleware/fastify';
import { httpHandler } from '@stevedore/middleware/http';
import express from 'express';
import { fastify } from 'fastify';
import { Upload } from 'tus-js-client';
import { expect, onTestFinished, test } from 'vitest';
import { serving } from '../../support/serving.js';
import { openStore } from '../../support/store.js';

/** Uploads in several requests at the routes of somebody else's app. */

const PATH = '/photos';

interface Rules {
  readonly store: FileStore;
  readonly policy: { readonly types: readonly string[] };
  readonly limits: { readonly maxClientUploads: number };
  readonly onStored: (receipts: readonly { key: string }[]) => void;
}

const apps: Readonly<Record<string, (rules: Rules) => Promise<string>>> = {
  'node:http': (rules) => {
    const handler = httpHandler({ ...rules, path: PATH });
    return serving((request, response) => handler(request, response));
  },
  express: (rules) => {
    const app = express().use(PATH, forExpress.files({ ...rules, path: '/' }));
    return serving(app as unknown as RequestListener);
  },
  fastify: async (rules) => {
    const app = fastify();
    app.register(stevedore, { ...rules, prefix: PATH });
    onTestFinished(() => app.close());
    return app.listen({ host: '127.0.0.1', port: 0 });
  },
};

for (const [name, start] of Object.entries(apps)) {
  test(`${name} takes them, under its policy, and says what was stored`, async () => {
    const stored: string[] = [];
    const base = await start({
      ...{
        store: await openStore(),
        policy: { types: ['text/*'] },
        limits: { maxClientUploads: 1 },
      },
      onStored: (receipts) => void stored.push(...receipts.map(({ key }) => key)),
    });
    const body = Buffer.from('a text in several requests');
    const send = (filetype: string): Promise<string> =>
      new Promise((resolve, reject) => {
        const upload = new Upload(body, {
          endpoint: base + PATH,
          chunkSize: 10,
          metadata: { filename: 'a.txt', filetype },
          retryDelays: null,
          onError: reject,
          onSuccess: () => resolve(upload.url!),
        });
        upload.start();
      });
    const url = await send('text/plain');
    // The upload's URL is that of the file.
    const response = await fetch(url);
    expect([response.status, await response.text()]).toEqual([200, body.toString()]);
    expect(stored).toEqual([url.slice(url.lastIndexOf('/') + 1)]);
    await expect(send('image/png')).rejects.toThrow('type_not_allowed');
    expect(stored.length).toBe(1);
    const headers = { 'tus-resumable': '1.0.0', 'upload-length': '5' };
    const metadata = { 'upload-metadata': `filetype ${btoa('text/plain')}` };
    const begin = () =>
      fetch(base + PATH, { method: 'POST', headers: { ...headers, ...metadata } });
    expect((await begin()).status).toBe(201);
    expect((await begin()).status).toBe(429);
  });
}
