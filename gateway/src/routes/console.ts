import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { GatewayStore } from '@stevedore/client/internal';
import { DEFAULT_TYPE, ProblemError, receiptJson } from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { contentType } from 'mime-types';
import type { Access, AskedBy } from '../access/access.js';
import type { ConsoleSource } from '../console/feed.js';
import { SPANS, type Span } from '../console/history.js';
import { filesBase } from '../http/public-address.js';
import { route } from '../http/route.js';
import { PACKAGE } from '../program.js';
import { keyRoutes } from './keys.js';

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
  'files.css',
  'console.js',
  'charts.js',
  'figures.js',
  'files.js',
  'folders.js',
  'list.js',
  'details.js',
  'deletion.js',
  'thumbnails.js',
  'viewer.js',
  'flush.js',
  'tables.js',
  'uploads.js',
  'story.js',
  'preview.js',
  'permissions.js',
  'policies.js',
  'key.js',
  'transfer.js',
  'view.js',
  'icon.svg',
];

/** Files of @stevedore/browser, which the console uploads with. */
const LIBRARY = new URL('.', import.meta.resolve('#browser'));
const LIBRARY_MODULES = [
  'index.js',
  'dropped-files.js',
  'requests.js',
  'upload.js',
  'upload-all.js',
];

const FOLDER = new URL('console/', PACKAGE);

/** uPlot, which draws the charts, as its package has it. */
const CHARTS: readonly (readonly [name: string, path: string])[] = [
  ['uplot.js', 'uplot/dist/uPlot.esm.js'],
  ['uplot.css', 'uplot/dist/uPlot.min.css'],
];

const PAGES: readonly (readonly [path: string, file: URL])[] = [
  ['/', new URL('index.html', FOLDER)],
  ...ASSETS.map((name) => [`/console/${name}`, new URL(name, FOLDER)] as const),
  ...LIBRARY_MODULES.map((name) => [`/console/lib/${name}`, new URL(name, LIBRARY)] as const),
  ...CHARTS.map(
    ([name, path]) => [`/console/lib/${name}`, new URL(import.meta.resolve(path))] as const,
  ),
];

export interface ConsoleParts {
  readonly source: ConsoleSource;
  readonly access: Access;
  readonly store: Pick<GatewayStore, 'locate'>;
}

export function consoleRoutes(app: FastifyInstance, parts: ConsoleParts): void {
  for (const [path, file] of PAGES) {
    const asset = readAsset(file);
    const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
      sendAsset(request, reply, asset);
    route(app, path, { GET: serve, HEAD: serve });
  }
  const { source, access, store } = parts;
  data(app, '/console/state', async (asked) => {
    await access.watch(asked);
    return source.state();
  });
  data(app, '/console/history', async (asked) => {
    await access.watch(asked);
    return source.history(spanOf(asked.query));
  });
  data(app, '/console/file', async (asked, base) => {
    const { id } = asked.query;
    if (typeof id !== 'string') {
      throw new ProblemError('bad_request', 'The parameter id names the file.');
    }
    await access.watch(asked);
    await access.info(asked, id);
    const { file, trunk, ...places } = await store.locate(id);
    const shown = trunk && (access.isOpen ? { ...trunk, fileId: '' } : trunk);
    return { file: receiptJson(file, base), ...places, ...(shown && { trunk: shown }) };
  });
  keyRoutes(app, access);
  data(app, '/console/access', async (asked) =>
    // Nothing is asked for in vain: a browser logs each answer of 404.
    access.isOpen ? {} : access.permissions(asked),
  );
}

function data(
  app: FastifyInstance,
  path: string,
  look: (asked: AskedBy, base: string) => Promise<object>,
): void {
  const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const shown = await look(request as AskedBy, filesBase(request));
    return reply.header('cache-control', 'no-store').send(shown);
  };
  route(app, path, { GET: serve, HEAD: serve });
}

function spanOf({ span = 'hour' }: AskedBy['query']): Span {
  const known = SPANS.find((each) => each === span);
  if (known) return known;
  throw new ProblemError('bad_request', `span is ${SPANS.join(' or ')}.`);
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
