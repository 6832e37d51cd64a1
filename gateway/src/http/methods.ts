import { ProblemError } from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import { operations } from '../openapi/operations.js';

/**
 * Registers a path with all its methods at once, so that every other method is
 * answered with 405 and an Allow header instead of 404.
 */

const METHODS = [
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'QUERY',
  'TRACE',
] as const;
type Method = (typeof METHODS)[number];

export type Handlers = { readonly [Name in Method]?: RouteHandlerMethod };

/** Not in the description of the API. */
const HIDDEN = { hide: true } as const;

/** `operation` is where the description has it, for a path that it has under another name. */
export function route(
  app: FastifyInstance,
  url: string,
  handlers: Handlers,
  operation?: string,
): void {
  const allowed = METHODS.filter((method) => handlers[method] !== undefined);
  const others = METHODS.filter((method) => handlers[method] === undefined);
  for (const method of allowed) {
    const handler = handlers[method];
    const schema = operations[operation ?? `${method} ${url}`] ?? HIDDEN;
    if (handler) app.route({ method, url, handler, schema });
  }
  const allow = allowed.join(', ');
  app.route({
    method: others,
    url,
    schema: HIDDEN,
    // Ahead of what the framework demands of a request with a body.
    onRequest: async (request, reply) => refuse(request, reply, allow),
    handler: async (request, reply) => refuse(request, reply, allow),
  });
}

function refuse(request: FastifyRequest, reply: FastifyReply, allow: string): never {
  reply.header('allow', allow);
  throw methodNotAllowed(request.method, allow);
}

function methodNotAllowed(method: string, allow: string): ProblemError {
  return new ProblemError('method_not_allowed', `${method} is not possible here; ${allow} is.`);
}
