import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Registry } from 'prom-client';
import { route } from '../http/methods.js';

/** `/metrics`, in the text format of Prometheus. */
export function metricsRoutes(app: FastifyInstance, registry: Registry): void {
  const serve = async (_: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    reply
      .header('content-type', registry.contentType)
      .header('cache-control', 'no-store')
      .send(await registry.metrics());

  route(app, '/metrics', { GET: serve, HEAD: serve });
}
