import type { GatewayStore } from '@stevedore/client/internal';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Registry } from 'prom-client';
import type { Access, AskedBy } from '../access/access.js';
import type { Connections } from '../http/connections.js';
import { route } from '../http/route.js';

/**
 * `/health` and `/metrics`. Live while the process answers; ready while files can be stored
 * durably.
 */
export function healthRoutes(
  app: FastifyInstance,
  store: GatewayStore,
  connections: Connections,
): void {
  const live = async (_: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    reply.header('cache-control', 'no-store').send({ live: true });

  const ready = async (_: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { accepting, trackerReachable, ...found } = await store.ready();
    const { isLeaving } = connections;
    const ready = found.ready && !isLeaving;
    const problems = isLeaving ? [...found.problems, 'the gateway is stopping'] : found.problems;
    return reply
      .code(ready ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ ready, accepting, trackerReachable, problems });
  };

  route(app, '/health/live', { GET: live, HEAD: live });
  route(app, '/health/ready', { GET: ready, HEAD: ready });
}

/** `/metrics`, in the text format of Prometheus. */
export function metricsRoutes(
  app: FastifyInstance,
  registry: Pick<Registry, 'contentType' | 'metrics'>,
  access: Access,
): void {
  const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    await access.watch(request as AskedBy);
    return reply
      .header('content-type', registry.contentType)
      .header('cache-control', 'no-store')
      .send(await registry.metrics());
  };

  route(app, '/metrics', { GET: serve, HEAD: serve });
}
