import type { IncomingMessage, ServerResponse } from 'node:http';
import { isStoreError, type StoredFile } from '@stevedore/client';
import {
  type Answer,
  cacheControl,
  checkKey,
  DEFAULT_TYPE,
  narrowPolicy,
  ProblemError,
  SKEW_MS,
  uploadPath,
} from '@stevedore/middleware/core';
import { extensionOf, type FileId, isTrunkId, kindOf, parseFileId } from '@stevedore/protocol';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { lookup } from 'mime-types';
import type { AskedBy, ReadGrant } from '../access/access.js';
import { policyNamed } from '../access/policies.js';
import type { ClientAddress } from '../http/addresses.js';
import { type Direct, type DirectCalls, FILE, NAMED_FILE, UPLOADS } from '../http/direct.js';
import { filesBase, type PublicBase } from '../http/public-address.js';
import { type Answering, answeringWith, type Call, keyOf, route } from '../http/route.js';
import { list, listGroups, removeListed } from './listing.js';
import { peerRoutes } from './peers.js';
import { clientOf, resumableRoutes, type UploadRoutes } from './resumable.js';

/** The routes of files: by key, by FastDFS id, and uploads. */

export interface FileRoutes extends UploadRoutes {
  /** Serves whole trunks by their ids too. */
  readonly serveTrunks: boolean;
  /** Keeps answers that can be repeated. */
  readonly direct: Direct;
}

export function fileRoutes(app: FastifyInstance, routes: FileRoutes): void {
  const { files } = routes;
  const answering = answeringWith(files);
  keyRoutes(app, routes, answering);
  fastdfsRoutes(app, routes, answering);
  uploadRoutes(app, routes, answering);
  resumableRoutes(app, routes, answering, (name) => upload(routes, name));
  peerRoutes(app, files, routes.store, answering);
}

/** `/files/KEY` */
function keyRoutes(app: FastifyInstance, routes: FileRoutes, answering: Answering): void {
  const { files, access } = routes;
  const readBy = reading(routes);
  const read = answering((request, reply) => {
    const { url = '' } = request.routeOptions;
    const how = { route: url, others: () => reply.getHeaders(), client: () => request.ip };
    return readBy(request as AskedBy, request.raw, (request.params as { key: string }).key, how);
  });
  const info = answering(async (request) => {
    const key = keyOf(request);
    await access.info(request as AskedBy, key);
    return files.info(request.raw, key, filesBase(request));
  });
  const remove = answering(async (request) => {
    const key = keyOf(request);
    await access.remove(request as AskedBy, key);
    return files.remove(key);
  });
  route(app, FILE, { GET: read, HEAD: read, DELETE: remove });
  route(app, '/files/:key/info', { GET: info, HEAD: info });
  route(app, NAMED_FILE, { GET: read, HEAD: read });
}

/** Of one answer. */
interface ReadAs {
  readonly route: string;
  /** The client's address. */
  readonly client: () => string;
  /** Headers that are not the file's. */
  readonly others: () => Readonly<Record<string, unknown>>;
}

/** Reads a file by its key, and keeps the answer if it can be repeated. */
function reading({
  files,
  access,
  direct,
}: Pick<FileRoutes, 'files' | 'access' | 'direct'>): (
  by: AskedBy,
  request: IncomingMessage,
  key: string,
  how: ReadAs,
) => Promise<Answer> {
  return async (by, request, key, { route, others, client }) => {
    const grant = await access.read(by, checkKey(key));
    const mayKeep = direct.mayKeep(key);
    const file = await files.store.get(key);
    const { query } = by;
    const { private: isPrivate, freshSeconds, isSigned } = grant;
    const how = { private: isPrivate, freshSeconds, isSigned, query, client };
    const answer = await files.read(request, file, how);
    if (mayKeep && answer.status === 200 && Buffer.isBuffer(answer.content)) {
      direct.keep(request, {
        key,
        known: file,
        route,
        content: answer.content,
        headers: others === NO_HEADERS ? answer.headers : { ...others(), ...answer.headers },
        cacheControl: ageOf(grant, file),
        until: (grant.freshUntil ?? Number.POSITIVE_INFINITY) + SKEW_MS,
      });
    }
    return answer;
  };
}

/** `Cache-Control` at a given time; undefined if it never changes. */
function ageOf(grant: ReadGrant, { expiresAt }: StoredFile): ((now: number) => string) | undefined {
  const { freshUntil } = grant;
  if (freshUntil === undefined && !expiresAt) return undefined;
  return (now) => {
    const left =
      freshUntil === undefined ? {} : { freshSeconds: Math.floor((freshUntil - now) / 1000) };
    return cacheControl({ ...grant, ...left, immutable: true }, expiresAt, now);
  };
}

/** The form of an id up to its file. */
const STORE_PATH = /^[^/]*\/M[0-9A-Fa-f]{2}\//;

/**
 * `/group1/M00/..`: files by their FastDFS ids, plain or of a slice, as the FastDFS nginx module
 * serves them: with slashes of any number, with its anti-leech token if one is required, and with
 * `filename` for an attachment of that name. The path is decoded once and must then be an id: 400 for a wrong one below a store
 * path, 404 elsewhere. A trunk contains files of many users, so its id is served only if an
 * operator allows it.
 */
function fastdfsRoutes(
  app: FastifyInstance,
  { files, access, serveTrunks }: FileRoutes,
  answering: Answering,
): void {
  const named = (request: FastifyRequest) => {
    const params = request.params as { readonly group: string; readonly '*': string };
    // As nginx does before its module sees the path. The group is empty in `//group1/M00/…`.
    const text = `${params.group}/${params['*']}`.replace(/^\/+/, '').replace(/\/{2,}/g, '/');
    const id = parseFileId(text);
    const kind = id && kindOf(id);
    if (!id || kind === undefined) throw STORE_PATH.test(text) ? noId() : notFound();
    if (!serveTrunks && mayBeTrunk(id)) throw notFound();
    return { text, id, kind };
  };
  const read = answering(async (request) => {
    const { text, id, kind } = named(request);
    const asked = request as AskedBy;
    const grant = await access.readId(asked, text, id.name);
    const { query } = asked;
    const { filename } = query;
    // The client wants to download the file under this name.
    const isAttachment = typeof filename === 'string' && filename !== '';
    const answer = (file: StoredFile): Promise<Answer> =>
      files.read(request.raw, file, {
        ...grant,
        query,
        type: lookup(extensionOf(id.base)) || DEFAULT_TYPE,
        name: isAttachment ? filename : file.name || id.base,
        immutable: kind !== 'appender',
        isBare: true,
        client: () => request.ip,
        download: isAttachment || undefined,
      });
    const found = await files.store.get(text);
    if (kind !== 'appender') return answer(found);
    return answer(found).catch(async (error: unknown) => {
      if (!isStoreError(error, 'storage_unavailable')) throw error;
      // It may have become shorter since its size was asked for.
      return answer(await files.store.get(text));
    });
  });
  const remove = answering(async (request) => {
    const { text } = named(request);
    await access.remove(request as AskedBy, text);
    return files.remove(text);
  });
  route(app, '/:group/*', { GET: read, HEAD: read, DELETE: remove });
}

function mayBeTrunk(id: FileId): boolean {
  return isTrunkId(id) || /\.merged$/i.test(id.base);
}

function notFound(): ProblemError {
  return new ProblemError('not_found', 'There is no such file.');
}

function noId(): ProblemError {
  return new ProblemError('invalid_file_id', 'This is not the path of a file in FastDFS.');
}

/** `POST /files`. */
function uploadRoutes(app: FastifyInstance, routes: FileRoutes, answering: Answering): void {
  const find = answering(finding(routes));
  const remove = answering(async (request) => {
    if ((request as AskedBy).query.id === undefined) return removeListed(request, routes);
    const id = idOf(request);
    await routes.access.remove(request as AskedBy, id);
    return routes.files.remove(id);
  });
  const POST = answering(upload(routes));
  route(app, UPLOADS, { POST, GET: find, HEAD: find, DELETE: remove });
  const groups = answering((request) => listGroups(request, routes));
  route(app, '/groups', { GET: groups, HEAD: groups });
}

/** `GET /files?id=ID` and `?once=MARK`: facts of files, without their bytes. */
function finding(routes: FileRoutes): Call {
  const { files, access } = routes;
  return async (request) => {
    const asked = request as AskedBy;
    const { headers, query } = asked;
    const { id: named, once, 'within-ms': within } = query;
    if (once === undefined && named === undefined) return list(request, routes);
    if (once === undefined) {
      const id = idOf(request);
      await access.info(asked, id);
      return files.info(request.raw, id, filesBase(request));
    }
    const isMark = /^[\w-]{22}$/.test(String(once)) && /^\d{0,15}$/.test(String(within ?? ''));
    if (!isMark) throw new ProblemError('bad_request', 'once is not the mark of an upload.');
    const path = uploadPath(undefined);
    const { scope } = await access.upload({ headers, query }, path);
    const withinMs = within === undefined ? undefined : Number(within);
    const mark = `once-${once}`;
    return files.once(request.raw, `${scope} ${path}`, mark, withinMs, filesBase(request));
  };
}

function idOf(request: FastifyRequest): string {
  const { id } = request.query as { readonly id?: unknown };
  if (typeof id === 'string') return id;
  throw new ProblemError('bad_request', 'The parameter id names the file: a key or a FastDFS id.');
}

function upload(routes: FileRoutes, name?: string): Call {
  const store = storing(routes, name);
  return (request, reply) => store(request as FastifyRequest & AskedBy, request.raw, reply.raw);
}

/** Who asks, as far as the storing of a file needs it. */
interface Uploader extends AskedBy {
  readonly ip: string;
  readonly publicBase: string;
}

/**
 * Stores the file or the form of a request under the policy of that name; without one under
 * `default`.
 */
function storing(
  { files, access, policies }: Pick<FileRoutes, 'files' | 'access' | 'policies'>,
  name = 'default',
): (by: Uploader, request: IncomingMessage, response: ServerResponse) => Promise<Answer> {
  const path = uploadPath(name === 'default' ? undefined : name);
  return async (by, request, response) => {
    const own = policyNamed(policies, name) ?? {};
    const { policy, scope, mark, account } = await access.upload(by, path);
    let storedBytes = 0;
    try {
      const stored = await files.upload(request, response, {
        policy: narrowPolicy(own, policy),
        scope: `${scope} ${path}`,
        client: () => clientOf(by, scope),
        mark,
        quota: account,
      });
      if (!stored.replayed) for (const { size } of stored.receipts) storedBytes += size;
      return files.uploaded(stored, filesBase(by));
    } finally {
      account?.settle(storedBytes);
    }
  };
}

const NO_QUERY = {};
const NO_HEADERS = () => NO_QUERY;

/** What the routes do with requests that need no framework. */
export function directCalls(
  routes: Pick<FileRoutes, 'files' | 'access' | 'policies' | 'direct'>,
  baseOf: PublicBase,
  clientAddress: ClientAddress,
): DirectCalls {
  const store = storing(routes);
  const read = reading(routes);
  return {
    store: (request, response) => {
      const { headers } = request;
      const ip = clientAddress(request);
      return store(
        { headers, query: NO_QUERY, publicBase: baseOf(request), ip },
        request,
        response,
      );
    },
    read: (request, key, name) => {
      const client = () => clientAddress(request);
      const by = { headers: request.headers, query: NO_QUERY };
      return read(by, request, key, { route: name, others: NO_HEADERS, client });
    },
  };
}
