import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { FileStore } from '@stevedore/client';
import { DEFAULT_TYPE } from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { contentType } from 'mime-types';
import type { Registry } from 'prom-client';
import type { Access, AskedBy } from '../access/access.js';
import type { ConsoleState } from '../console/feed.js';
import { route } from '../http/route.js';

/**
 * `/health` and `/metrics`. Live while the process answers; ready while files can be stored
 * durably.
 */
export function healthRoutes(app: FastifyInstance, store: FileStore): void {
  const live = async (_: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    reply.header('cache-control', 'no-store').send({ live: true });

  const ready = async (_: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { ready, accepting, trackerReachable, problems } = await store.ready();
    return reply
      .code(ready ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ ready, accepting, trackerReachable, problems });
  };

  route(app, '/health/live', { GET: live, HEAD: live });
  route(app, '/health/ready', { GET: ready, HEAD: ready });
}

/** `/metrics`, in the text format of Prometheus. */
export function metricsRoutes(
  app: FastifyInstance,
  registry: Pick<Registry, 'contentType' | 'metrics'>,
  access: Access,
): void {
  const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    await access.watch(request as AskedBy);
    return reply
      .header('content-type', registry.contentType)
      .header('cache-control', 'no-store')
      .send(await registry.metrics());
  };

  route(app, '/metrics', { GET: serve, HEAD: serve });
}

/**
 * `GET /`: the web console, a page without a build step that loads nothing from other hosts, and
 * the data behind it.
 */

/**
 * Pictures of files come from the gateway, too; nothing is inline and nothing may frame the page.
 */
const CONTENT_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HEADERS = {
  'cache-control': 'no-cache',
  'content-security-policy': CONTENT_POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

const ASSETS = [
  'page.css',
  'controls.css',
  'figures.css',
  'console.js',
  'figures.js',
  'find.js',
  'tables.js',
  'uploads.js',
  'look-up.js',
  'key.js',
  'transfer.js',
  'view.js',
  'icon.svg',
];

/** Files of @stevedore/browser, which the console uploads with. */
const LIBRARY = new URL('.', import.meta.resolve('@stevedore/browser'));
const LIBRARY_MODULES = [
  'index.js',
  'dropped-files.js',
  'requests.js',
  'upload.js',
  'upload-all.js',
];

const FOLDER = new URL('../../console/', import.meta.url);

const PAGES: readonly (readonly [path: string, file: URL])[] = [
  ['/', new URL('index.html', FOLDER)],
  ...ASSETS.map((name) => [`/console/${name}`, new URL(name, FOLDER)] as const),
  ...LIBRARY_MODULES.map((name) => [`/console/lib/${name}`, new URL(name, LIBRARY)] as const),
];

export function consoleRoutes(
  app: FastifyInstance,
  look: () => Promise<ConsoleState>,
  access: Access,
): void {
  for (const [path, file] of PAGES) {
    const asset = readAsset(file);
    const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
      sendAsset(request, reply, asset);
    route(app, path, { GET: serve, HEAD: serve });
  }

  const state = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    await access.watch(request as AskedBy);
    return reply.header('cache-control', 'no-store').send(await look());
  };
  route(app, '/console/state', { GET: state, HEAD: state });
}

function sendAsset(request: FastifyRequest, reply: FastifyReply, asset: Asset): FastifyReply {
  reply.headers(HEADERS).header('etag', asset.etag);
  if (request.headers['if-none-match'] === asset.etag) return reply.code(304).send();
  reply.header('content-type', asset.type).header('content-length', String(asset.bytes.length));
  return reply.send(request.method === 'HEAD' ? undefined : asset.bytes);
}

/** The console's files in the package: read once, never built. */

export interface Asset {
  readonly bytes: Buffer;
  readonly type: string;
  readonly etag: string;
}

function readAsset(file: URL): Asset {
  const bytes = readFileSync(file);
  const digest = createHash('sha256').update(bytes).digest('base64url');
  const type = contentType(basename(file.pathname)) || DEFAULT_TYPE;
  // From its bytes: all files of an installed package have the same time.
  return { bytes, type, etag: `"${digest.slice(0, 22)}"` };
}
