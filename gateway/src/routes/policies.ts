import { asStoreError } from '@stevedore/client';
import { ProblemError } from '@stevedore/middleware/core';
import { fromFile, parseOptions, type RawOptions } from '@stevedore/options';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Access, AskedBy } from '../access/access.js';
import { PolicyFile, type PolicySource, policyNamed, policyOptions } from '../access/policies.js';
import { route } from '../http/route.js';
import { writable } from './keys.js';

/**
 * `GET /policies`, `PUT /policies/NAME` and `DELETE /policies/NAME`, for one who may administer the
 * gateway. The query has what is said of the policy. Changes are written to the file of policies.
 */
export function policyRoutes(app: FastifyInstance, access: Access, policies: PolicySource): void {
  const list = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    await access.manage(request as AskedBy);
    const file = policies instanceof PolicyFile ? policies.path : undefined;
    reply.header('cache-control', 'no-store');
    return reply.send({ ...(file && { file }), policies: policies.current });
  };
  const set = async (request: FastifyRequest, values: RawOptions | undefined): Promise<void> => {
    if (!(policies instanceof PolicyFile)) {
      const message = 'This gateway has no file of policies: start it with --policies FILE.';
      throw new ProblemError('route_not_found', message);
    }
    const { name } = request.params as { readonly name: string };
    if (!values && !policyNamed(policies, name)) {
      throw new ProblemError('route_not_found', 'There is no policy of that name.');
    }
    await writable(policies.path, () => policies.set(name, values));
  };
  route(app, '/policies', { GET: list, HEAD: list });
  route(app, '/policies/:name', {
    PUT: async (request, reply) => {
      await access.manage(request as AskedBy);
      await set(request, valuesOf(request as AskedBy));
      return reply.code(204).send();
    },
    DELETE: async (request, reply) => {
      await access.manage(request as AskedBy);
      await set(request, undefined);
      return reply.code(204).send();
    },
  });
}

/** The policy to write to the file. A parameter that is missing or empty sets no limit. */
function valuesOf({ query }: AskedBy): RawOptions {
  const values: Record<string, unknown> = {};
  for (const [name, { kind }] of Object.entries(policyOptions)) {
    const value = query[parameterOf(name)];
    if (value === undefined || value === '') continue;
    values[name] =
      kind === 'list'
        ? String(value)
            .split(',')
            .map((each) => each.trim())
        : value;
  }
  asStoreError(() => parseOptions(policyOptions, [fromFile('the request', values)]));
  return values;
}

/** `max-file-size` for `maxFileSize`. */
function parameterOf(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
