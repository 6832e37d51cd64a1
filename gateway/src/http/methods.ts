import { ProblemError } from '@stevedore/middleware/core';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';

/**
 * Registers a path with all its methods at once, so that every other method is
 * answered with 405 and an Allow header instead of 404.
 */

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
type Method = (typeof METHODS)[number];

export type Handlers = { readonly [Name in Method]?: RouteHandlerMethod };

export function route(app: FastifyInstance, url: string, handlers: Handlers): void {
  const allowed = METHODS.filter((method) => handlers[method] !== undefined);
  const others = METHODS.filter((method) => handlers[method] === undefined);
  for (const method of allowed) {
    const handler = handlers[method];
    if (handler) app.route({ method, url, handler });
  }
  const allow = allowed.join(', ');
  app.route({
    method: others,
    url,
    handler: async (request, reply) => refuse(request, reply, allow),
  });
}

function refuse(request: FastifyRequest, reply: FastifyReply, allow: string): never {
  reply.header('allow', allow);
  throw methodNotAllowed(request.method, allow);
}

export function methodNotAllowed(method: string, allow: string): ProblemError {
  return new ProblemError('method_not_allowed', `${method} is not possible here; ${allow} is.`);
}
