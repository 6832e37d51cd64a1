import type { IncomingHttpHeaders } from 'node:http';
import { type FileStore, originOf, PEER_HEADER } from '@stevedore/client';
import {
  checkKey,
  type Files,
  methodNotAllowed,
  narrowPolicy,
  ProblemError,
  type ResumableRequest,
  scopeOfUpload,
  uploadPath,
} from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Access, AskedBy } from '../access/access.js';
import type { UnfinishedCharges, UploadAccount } from '../access/ledger.js';
import type { Policies } from '../access/policies.js';
import type { Forwarder } from '../http/forward.js';
import { filesBase } from '../http/public-address.js';
import { type Answering, type Call, route } from '../http/route.js';
import { asPeer } from './peers.js';

/**
 * Resumable uploads by tus 1.0: created by `POST /uploads`, or `/uploads/NAME` under the policy
 * NAME, and continued at `/uploads/ID`. The id is the key of the file that they become.
 */

export interface UploadRoutes {
  readonly files: Files;
  readonly store: FileStore;
  readonly access: Access;
  readonly policies: Policies;
  readonly charges: UnfinishedCharges;
  readonly forwarder: Forwarder;
}

const UPLOADS = '/uploads';

/** Of the collections, as the client reaches them. */
function pathsOf(request: FastifyRequest) {
  return { path: request.publicBase + UPLOADS, filesPath: filesBase(request) };
}

export function resumableRoutes(
  app: FastifyInstance,
  routes: UploadRoutes,
  answering: Answering,
): void {
  const { files } = routes;
  const options: Call = (request, reply) =>
    files.resume(request.raw, reply.raw, { ...pathsOf(request), client: '' });
  route(app, UPLOADS, {
    POST: answering(beginUpload(routes, undefined)),
    OPTIONS: answering(options),
  });
  const call = continueUpload(routes);
  const proceed = answering((request, reply) =>
    // Of a client, or passed on by another gateway.
    request.headers[PEER_HEADER] === undefined
      ? call(request, reply)
      : asPeer(routes.store.deployment, call)(request, reply),
  );
  route(app, `${UPLOADS}/:id`, {
    HEAD: proceed,
    PATCH: proceed,
    DELETE: proceed,
    // For clients behind proxies that do not pass PATCH: X-HTTP-Method-Override.
    POST: proceed,
    OPTIONS: answering(options),
  });
}

/** Under the policy of that name; without one under `default`. */
export function beginUpload(routes: UploadRoutes, name: string | undefined): Call {
  const { files, access, policies } = routes;
  const own = policies[name ?? 'default'] ?? {};
  const path = uploadPath(name);
  return async (request, reply) => {
    const { policy, scope, mark, account } = await access.upload(request as AskedBy, path);
    const length = lengthOf(request.headers['upload-length']);
    if (length !== 0 && request.headers['upload-concat'] === undefined) {
      await account?.demand(length ?? 1);
    }
    return files.resume(request.raw, reply.raw, {
      ...pathsOf(request),
      client: clientOf(request, scope),
      policy: narrowPolicy(own, policy),
      scope,
      mark,
      ...(access.isOpen ? {} : { visibleScope: scope }),
      ...counting(routes.charges, scope, account),
    });
  };
}

/** Counts the bytes of a request to the quota of its key. */
function counting(
  charges: UnfinishedCharges,
  key: string,
  account: UploadAccount | undefined,
): Pick<ResumableRequest, 'quota' | 'onReceived' | 'onStored'> {
  if (!account) return {};
  let isFile = false;
  return {
    quota: account,
    onStored: (_receipt, ids) => {
      isFile = true;
      charges.keep(ids);
    },
    onReceived: async (bytes, id) => {
      account.settle(bytes);
      if (id === undefined || isFile) return;
      if (bytes > 0) charges.add(id, key, bytes);
      await charges.check([id]);
    },
  };
}

/** Undefined for anything but a number, which the protocol's own check refuses. */
function lengthOf(header: string | string[] | undefined): number | undefined {
  return /^\d{1,15}$/.test(String(header)) ? Number(header) : undefined;
}

/** Without keys, all requests from one address count as one client's. */
export function clientOf({ ip }: FastifyRequest, scope: string): string {
  return scope === '' ? ip : scope;
}

/** The gateway that created the upload, if it is another one. */
async function elsewhereOf(
  { unfinished, deployment }: FileStore,
  id: string,
  headers: IncomingHttpHeaders,
): Promise<string | undefined> {
  if (headers[PEER_HEADER] !== undefined || unfinished?.find(id)) return undefined;
  try {
    return await deployment?.urlFor(id);
  } catch (error) {
    const message = 'The server that has this upload is not known now.';
    throw new ProblemError('storage_unavailable', message, error);
  }
}

function continueUpload(routes: UploadRoutes): Call {
  const { files, store, access, forwarder } = routes;
  return async (request, reply) => {
    const { method, headers } = request as FastifyRequest & AskedBy;
    if (method === 'POST' && headers['x-http-method-override'] === undefined) {
      throw methodNotAllowed(method, 'HEAD, PATCH, DELETE');
    }
    const id = checkKey((request.params as { readonly id: string }).id);
    const elsewhere = await elsewhereOf(store, id, headers);
    const { deployment } = store;
    if (elsewhere && deployment) {
      const origin = originOf(Buffer.from(id, 'base64url'));
      const { headers: others, ...answer } = await forwarder.forward(
        request.raw,
        reply.raw,
        elsewhere,
        deployment,
        () => deployment.mayReturn(origin),
      );
      files.closeIfUnread(request.raw, reply.raw);
      // The other gateway does not know where this client reaches this one.
      const found = 'content-location' in others;
      const at = found ? { 'content-location': `${filesBase(request)}/${id}` } : {};
      return { ...answer, headers: { ...others, ...at } };
    }
    const scope = scopeOfUpload(files.store, id);
    const { visibleScope, account } = await access.resume(request as AskedBy, scope);
    return files.resume(request.raw, reply.raw, {
      ...pathsOf(request),
      client: clientOf(request, scope ?? ''),
      id,
      visibleScope,
      ...counting(routes.charges, visibleScope ?? '', account),
    });
  };
}
