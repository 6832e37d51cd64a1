import type { FileStore } from '@stevedore/client';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { collectDefaultMetrics, Gauge, type Metric, Registry } from 'prom-client';
import { redactUrl } from './redact.js';
import type { Refusals } from './refusals.js';
import { RequestDurations } from './request-durations.js';
import { addStoreMetrics } from './store-metrics.js';

/**
 * What is told of the gateway from outside: `X-Request-Id` on every answer, a line in
 * the log for every request, and the figures behind `/metrics`.
 */

export interface ObserveOptions {
  readonly store: FileStore;
  readonly log: Logger;
  /** Also memory, CPU and event loop of this process. */
  readonly processMetrics: boolean;
  readonly refusals: Refusals;
}

/** Adds the hooks; to be called before routes are added. */
export function observe(
  app: FastifyInstance,
  options: ObserveOptions,
): { readonly registry: Registry; readonly durations: RequestDurations } {
  const { store, log, processMetrics } = options;
  const registry = new Registry();
  const durations = new RequestDurations();
  registry.registerMetric(durations.metric as unknown as Metric);
  const stop = addStoreMetrics(registry, store);
  options.refusals.addTo(registry);
  addConnections(registry, app);
  if (processMetrics) collectDefaultMetrics({ register: registry });

  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    done();
  });
  app.addHook('onResponse', (request, reply, done) => {
    const { method, routeOptions } = request;
    durations.observe(method, routeOptions.url, reply.statusCode, reply.elapsedTime / 1000);
    if (log.isLevelEnabled('info')) logRequest(log, request, reply);
    done();
  });
  app.addHook('onClose', async () => {
    stop();
    registry.clear();
  });
  return { registry, durations };
}

function logRequest(log: Logger, request: FastifyRequest, reply: FastifyReply): void {
  log.info(
    {
      requestId: request.id,
      method: request.method,
      url: redactUrl(request.url),
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime * 100) / 100,
      client: request.ip,
      // A client that left has got less than was meant for it.
      ...(reply.raw.writableFinished ? {} : { aborted: true }),
    },
    'request',
  );
}

function addConnections(registry: Registry, app: FastifyInstance): void {
  new Gauge({
    name: 'stevedore_http_connections',
    help: 'Open connections of HTTP clients.',
    registers: [registry],
    collect() {
      return new Promise((resolve) => {
        app.server.getConnections((_error, count) => {
          this.set(count ?? 0);
          resolve();
        });
      });
    },
  });
}
