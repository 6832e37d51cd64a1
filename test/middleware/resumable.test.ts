import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type FileStore, open } from '@stevedore/client';
import * as forExpress from '@stevedore/middleware/express';
import { stevedore } from '@stevedore/middleware/fastify';
import { httpHandler } from '@stevedore/middleware/http';
import express from 'express';
import { fastify } from 'fastify';
import { Upload } from 'tus-js-client';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../support/temporary.js';

/** Uploads in several requests at the routes of somebody else's app. */

interface App {
  readonly url: string;
  readonly stored: string[];
}

const PATH = '/photos';

async function listening(listener: RequestListener, stored: string[]): Promise<App> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stored };
}

const policy = { types: ['text/*'] };
const limits = { maxClientUploads: 1 };

const apps: Readonly<Record<string, (store: FileStore) => Promise<App>>> = {
  'node:http': (store) => {
    const stored: string[] = [];
    const handler = httpHandler({
      store,
      path: PATH,
      policy,
      limits,
      onStored: (receipts) => void stored.push(...receipts.map(({ key }) => key)),
    });
    return listening((request, response) => handler(request, response), stored);
  },
  express: (store) => {
    const stored: string[] = [];
    const app = express();
    const onStored = (receipts: readonly { key: string }[]) =>
      void stored.push(...receipts.map(({ key }) => key));
    app.use(PATH, forExpress.files({ store, path: '/', policy, limits, onStored }));
    return listening(app as unknown as RequestListener, stored);
  },
  fastify: async (store) => {
    const stored: string[] = [];
    const app = fastify();
    app.register(stevedore, {
      prefix: PATH,
      store,
      policy,
      limits,
      onStored: (receipts) => void stored.push(...receipts.map(({ key }) => key)),
    });
    await app.listen({ host: '127.0.0.1', port: 0 });
    onTestFinished(() => app.close());
    return { url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, stored };
  },
};

for (const [name, start] of Object.entries(apps)) {
  test(`${name} takes them, under its policy, and says what was stored`, async () => {
    const store = await open({ directory: temporaryFolder() });
    onTestFinished(() => store.close());
    const app = await start(store);
    const body = Buffer.from('a text in several requests');
    const send = (filetype: string): Promise<string> =>
      new Promise((resolve, reject) => {
        const upload = new Upload(body, {
          endpoint: app.url + PATH,
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
    expect(app.stored).toEqual([url.slice(url.lastIndexOf('/') + 1)]);
    await expect(send('image/png')).rejects.toThrow('type_not_allowed');
    expect(app.stored.length).toBe(1);
    const headers = { 'tus-resumable': '1.0.0', 'upload-length': '5' };
    const metadata = { 'upload-metadata': `filetype ${btoa('text/plain')}` };
    const begin = () =>
      fetch(app.url + PATH, { method: 'POST', headers: { ...headers, ...metadata } });
    expect((await begin()).status).toBe(201);
    expect((await begin()).status).toBe(429);
  });
}
