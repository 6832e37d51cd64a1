import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Store } from '@stevedore/client';
import * as forExpress from '@stevedore/middleware/express';
import { stevedore } from '@stevedore/middleware/fastify';
import { httpHandler, type UploadRules } from '@stevedore/middleware/http';
import { multerStorage } from '@stevedore/middleware/multer';
import express from 'express';
import { fastify } from 'fastify';
import multer from 'multer';

/** An app with each adapter, all with uploads at `/photos` and files below it. */

export interface App {
  readonly url: string;
  /** Keys of what an upload's answer tells of. */
  keysOf(answer: unknown): string[];
  close(): Promise<void>;
}

export interface Adapter {
  readonly name: string;
  /** Only forms: it is what multer is for. */
  readonly formsOnly?: boolean;
  start(store: Store, policy: UploadRules): Promise<App>;
}

const keysOf = (answer: unknown): string[] =>
  ([] as { key: string }[]).concat(answer as { key: string }[]).map(({ key }) => key);

async function listen(server: Server): Promise<App> {
  server.requestTimeout = 0;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/photos`,
    keysOf,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export const adapters: readonly Adapter[] = [
  {
    name: 'http',
    start: (store, policy) => {
      const handler = httpHandler({ store, path: '/photos', policy, allowDelete: true });
      return listen(createServer((request, response) => handler(request, response)));
    },
  },
  {
    name: 'express',
    start: (store, policy) => {
      const app = express();
      app.post('/photos', forExpress.upload(store, policy), (request, response) => {
        response.status(201).json([...request.stored]);
      });
      app.get(['/photos/:key', '/photos/:key/:name'], forExpress.download(store));
      app.delete('/photos/:key', forExpress.remove(store));
      app.use(forExpress.problems(store));
      return listen(createServer(app as unknown as RequestListener));
    },
  },
  {
    name: 'express, mounted',
    start: (store, policy) => {
      const app = express();
      app.use('/photos', forExpress.files({ store, path: '/', policy, allowDelete: true }));
      return listen(createServer(app as unknown as RequestListener));
    },
  },
  {
    name: 'fastify',
    start: async (store, policy) => {
      const app = fastify();
      app.register(stevedore, { prefix: '/photos', store, policy, allowDelete: true });
      await app.listen({ host: '127.0.0.1', port: 0 });
      return {
        url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/photos`,
        keysOf,
        close: async () => {
          app.server.closeAllConnections();
          await app.close();
        },
      };
    },
  },
  {
    name: 'multer',
    formsOnly: true,
    start: (store, policy) => {
      const app = express();
      const files = multer({ storage: multerStorage(store, policy) });
      app.post('/photos', files.any(), (request, response) => {
        response.status(201).json(request.files);
      });
      app.get(['/photos/:key', '/photos/:key/:name'], forExpress.download(store));
      app.delete('/photos/:key', forExpress.remove(store));
      app.use(forExpress.problems(store));
      return listen(createServer(app as unknown as RequestListener));
    },
  },
];
