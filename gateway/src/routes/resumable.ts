import type { IncomingHttpHeaders } from 'node:http';
import { type GatewayStore, originOf, PEER_HEADER } from '@stevedore/client/internal';
import {
  checkKey,
  type Files,
  narrowPolicy,
  ProblemError,
  type ResumableRequest,
  scopeOfUpload,
  uploadPath,
} from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Access, AskedBy } from '../access/access.js';
import type { UnfinishedCharges, UploadAccount } from '../access/ledger.js';
import { type PolicySource, policyNamed } from '../access/policies.js';
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
  readonly store: GatewayStore;
  readonly access: Access;
  readonly policies: PolicySource;
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
  /** Takes whole files under a policy. */
  uploadUnder: (policy: string) => Call,
): void {
  const { files } = routes;
  const options: Call = (request, reply) =>
    files.resume(request.raw, reply.raw, { ...pathsOf(request), client: '' });
  route(app, UPLOADS, {
    POST: answering(beginUpload(routes)),
    OPTIONS: answering(options),
  });
  const call = continueUpload(routes);
  // Of a client, or passed on by another gateway.
  const proceedWith: Call = (request, reply) =>
    request.headers[PEER_HEADER] === undefined
      ? call(request, reply)
      : asPeer(routes.store.deployment, call)(request, reply);
  const proceed = answering(proceedWith);
  route(app, `${UPLOADS}/:id`, {
    HEAD: proceed,
    PATCH: proceed,
    DELETE: proceed,
    POST: answering((request, reply) => {
      const { headers } = request;
      // For clients behind proxies that do not pass PATCH.
      if (headers['x-http-method-override'] !== undefined) return proceedWith(request, reply);
      const { id: name } = request.params as { readonly id: string };
      if (name === 'default' || !policyNamed(routes.policies, name)) {
        throw new ProblemError('route_not_found', 'There is no upload policy of that name.');
      }
      const isResumable = headers['tus-resumable'] !== undefined;
      return (isResumable ? beginUpload(routes, name) : uploadUnder(name))(request, reply);
    }),
    OPTIONS: answering(options),
  });
}

/** Under the policy of that name; without one under `default`. */
function beginUpload(routes: UploadRoutes, name = 'default'): Call {
  const { files, access, policies } = routes;
  const path = uploadPath(name === 'default' ? undefined : name);
  return async (request, reply) => {
    const own = policyNamed(policies, name) ?? {};
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
export function clientOf({ ip }: Pick<FastifyRequest, 'ip'>, scope: string): string {
  return scope === '' ? ip : scope;
}

/** The gateway that created the upload, if it is another one. */
async function elsewhereOf(
  { unfinished, deployment }: GatewayStore,
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
    const { headers } = request as AskedBy;
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
