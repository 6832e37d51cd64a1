import { ProblemError } from '@stevedore/middleware/core';
import type { RawOptions } from '@stevedore/options';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Access, AskedBy } from '../access/access.js';
import { PolicyFile, type PolicySource, policyNamed, policyOptions } from '../access/policies.js';
import { route } from '../http/route.js';
import { optionsIn, writable } from './keys.js';

/**
 * `GET /policies`, `PUT /policies/NAME` and `DELETE /policies/NAME`, for one who may administer the
 * gateway. The query has what is said of the policy. Changes are written to the file of policies.
 */
export function policyRoutes(app: FastifyInstance, access: Access, policies: PolicySource): void {
  const list = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    await access.manage(request as AskedBy);
    const file = policies instanceof PolicyFile ? policies.file.path : undefined;
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
    await writable(policies.file.path, () => policies.set(name, values));
  };
  route(app, '/policies', { GET: list, HEAD: list });
  route(app, '/policies/:name', {
    PUT: async (request, reply) => {
      await access.manage(request as AskedBy);
      await set(request, optionsIn((request as AskedBy).query, policyOptions).written);
      return reply.code(204).send();
    },
    DELETE: async (request, reply) => {
      await access.manage(request as AskedBy);
      await set(request, undefined);
      return reply.code(204).send();
    },
  });
}
