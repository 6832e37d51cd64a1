import type { OutgoingHttpHeaders } from 'node:http';
import {
  type Answer,
  checkKey,
  type Files,
  methodNotAllowed,
  ProblemError,
  toProblem,
} from '@stevedore/middleware/core';
import { isError } from '@stevedore/protocol';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';

/**
 * Registers a path with all its methods at once, so that every other method is answered with 405
 * and an Allow header instead of 404.
 */

const NAMED = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
const METHODS = [...NAMED, 'QUERY', 'TRACE'] as const;

type Handlers = { readonly [Name in (typeof NAMED)[number]]?: RouteHandlerMethod };

export function route(app: FastifyInstance, url: string, handlers: Handlers): void {
  const allowed: string[] = NAMED.filter((method) => handlers[method] !== undefined);
  const others = METHODS.filter((method) => !allowed.includes(method));
  for (const method of NAMED) {
    const handler = handlers[method];
    if (handler) app.route({ method, url, handler });
  }
  const allow = allowed.join(', ');
  app.route({
    method: others,
    url,
    // Before the framework's own checks of a request with a body.
    onRequest: async (request) => refuse(request, allow),
    handler: async (request) => refuse(request, allow),
  });
}

function refuse({ method }: FastifyRequest, allow: string): never {
  throw methodNotAllowed(method, allow);
}

export type Call = (request: FastifyRequest, reply: FastifyReply) => Promise<Answer>;
export type Answering = (call: Call) => RouteHandlerMethod;

/** Sends answers past the framework, which would read a long file ahead of its client. */
export function answeringWith(files: Files): Answering {
  return (call) => async (request, reply) => {
    const answer = await call(request, reply);
    const others = reply.getHeaders() as OutgoingHttpHeaders;
    files.send(reply.hijack().raw, answer, others);
    return reply;
  };
}

export function keyOf({ params }: FastifyRequest): string {
  return checkKey((params as { readonly key: string }).key);
}

/** The problem that answers an error, including the framework's own refusals. */
export function problemOf(error: unknown): ProblemError {
  return frameworkProblem(error) ?? toProblem(error);
}

/** Refusals of the framework before a route is called. */
function frameworkProblem(error: unknown): ProblemError | undefined {
  if (!isError(error) || !('code' in error)) return undefined;
  switch (error.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new ProblemError('invalid_media_type', 'Content-Type is not a media type.', error);
    case 'FST_ERR_BAD_URL':
      return new ProblemError('bad_request', 'The path is not valid percent-encoded UTF-8.', error);
    default:
      return isRefusal(error) ? new ProblemError('bad_request', error.message, error) : undefined;
  }
}

/** Any other error that the framework attributes to the client. */
function isRefusal(error: Error): boolean {
  const { code, statusCode } = error as { readonly code?: unknown; readonly statusCode?: unknown };
  const isFrameworks = typeof code === 'string' && code.startsWith('FST_');
  return isFrameworks && typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500;
}
