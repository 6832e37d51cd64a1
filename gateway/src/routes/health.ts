import type { FileStore } from '@stevedore/client';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { route } from '../http/methods.js';

/** `/health`: live while the process answers; ready while files can be stored durably. */
export function healthRoutes(app: FastifyInstance, store: FileStore): void {
  const live = async (_: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    reply.header('cache-control', 'no-store').send({ live: true });

  const ready = async (_: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { ready, accepting, trackerReachable, problems } = await store.ready();
    return reply
      .code(ready ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ ready, accepting, trackerReachable, problems });
  };

  route(app, '/health/live', { GET: live, HEAD: live });
  route(app, '/health/ready', { GET: ready, HEAD: ready });
}
