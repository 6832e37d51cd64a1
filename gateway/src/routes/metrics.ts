import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Registry } from 'prom-client';
import type { Access, AskedBy } from '../access/access.js';
import { route } from '../http/methods.js';

/** `/metrics`, in the text format of Prometheus. */
export function metricsRoutes(app: FastifyInstance, registry: Registry, access: Access): void {
  const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    access.watch(request as AskedBy);
    return reply
      .header('content-type', registry.contentType)
      .header('cache-control', 'no-store')
      .send(await registry.metrics());
  };

  route(app, '/metrics', { GET: serve, HEAD: serve });
}
