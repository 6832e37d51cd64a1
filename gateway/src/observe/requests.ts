import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { StoreStats } from '@stevedore/client';
import type { GatewayStore } from '@stevedore/client/internal';
import type { ProblemCode, UnsentBytes, UnsentStats } from '@stevedore/middleware/core';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { collectDefaultMetrics, Gauge, type Metric, Registry } from 'prom-client';
import type { ClientAddress } from '../http/addresses.js';
import type { RequestDurations } from './durations.js';
import { addFigures, type Figures, labelled } from './figures.js';
import { redactUrl } from './log.js';
import { addStoreMetrics } from './store-metrics.js';

/**
 * Observes requests: `X-Request-Id` on every answer, a log line for every request, and the metrics
 * behind `/metrics`.
 */

export interface ObserveOptions {
  readonly store: GatewayStore;
  readonly stats: () => StoreStats;
  readonly logRequest: LogRequest | undefined;
  /** Also memory, CPU and event loop of this process. */
  readonly processMetrics: boolean;
  readonly refusals: Refusals;
  readonly durations: RequestDurations;
  readonly unsent: UnsentBytes;
}

const DOWNLOADS: Figures<UnsentStats> = {
  gauges: [
    [
      'download_unsent_bytes',
      'Bytes read for downloads and not yet accepted by clients.',
      ({ bytes }) => bytes,
    ],
    ['downloads_stalled', 'Downloads waiting for their clients.', ({ stalled }) => stalled],
  ],
  counters: [
    [
      'downloads_ended_for_stall_total',
      'Downloads closed because their clients stalled for too long.',
      ({ endedForStall }) => endedForStall,
    ],
    [
      'downloads_ended_for_room_total',
      'Stalled downloads closed early to free memory or a connection.',
      ({ endedForRoom }) => endedForRoom,
    ],
  ],
};

/** Adds the hooks; call it before routes are added. */
export function observe(app: FastifyInstance, options: ObserveOptions): Registry {
  const { store, processMetrics, durations } = options;
  const registry = new Registry();
  registry.registerMetric(durations.metric as unknown as Metric);
  const stop = addStoreMetrics(registry, store, options.stats);
  options.refusals.addTo(registry);
  addFigures(registry, DOWNLOADS, () => options.unsent.stats());
  addConnections(registry, app);
  if (processMetrics) collectDefaultMetrics({ register: registry });

  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    done();
  });
  app.addHook('onResponse', (request, reply, done) => {
    const { method, routeOptions, id } = request;
    const ms = reply.elapsedTime;
    durations.observe(method, routeOptions.url, reply.statusCode, ms / 1000);
    options.logRequest?.(request.raw, reply.raw, { id, ms });
    done();
  });
  app.addHook('onClose', async () => {
    stop();
    registry.clear();
  });
  return registry;
}

/** Logs an answer once it is sent. */
export type LogRequest = (
  request: IncomingMessage,
  response: ServerResponse,
  sent: { readonly id: string; readonly ms: number },
) => void;

/** A line for each request; undefined if the log's level leaves them out. */
export function requestLog(log: Logger, clientOf: ClientAddress): LogRequest | undefined {
  if (!log.isLevelEnabled('info')) return undefined;
  return (request, response, { id, ms }) => {
    const { method, url = '' } = request;
    log.info(
      {
        requestId: id,
        method,
        url: redactUrl(url),
        status: response.statusCode,
        ms: Math.round(ms * 100) / 100,
        client: clientOf(request),
        // A client that disconnected received less than the whole answer.
        ...(response.writableFinished ? {} : { aborted: true }),
      },
      'request',
    );
  };
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

/**
 * Requests refused before routing: malformed HTTP, headers too slow or too long, a path that is not
 * UTF-8. The codes are the gateway's own.
 */
export class Refusals {
  readonly #log: Logger;
  readonly #counts = new Map<ProblemCode, number>();

  constructor(log: Logger) {
    this.#log = log;
  }

  note(code: ProblemCode, client: string | undefined): void {
    this.#counts.set(code, (this.#counts.get(code) ?? 0) + 1);
    this.#log.info({ code, client }, 'refused');
  }

  addTo(registry: Registry): void {
    const help = 'Requests refused before routing: malformed, or headers too slow or too long.';
    labelled(registry, 'http_refused_total', help, ['code'], (set) => {
      for (const [code, count] of this.#counts) set({ code }, count);
    });
  }
}

/**
 * The id of a request in logs and answers. The one from a proxy in front is kept if it is well
 * formed; nothing else from a header may get into a log.
 */

const WELL_FORMED = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

export type RequestIds = (request: IncomingMessage) => string;

export function requestIds(): RequestIds {
  const process = randomBytes(6).toString('base64url').replace(/^[_-]/, '0');
  let count = 0;
  return ({ headers }) => {
    const given = headers['x-request-id'];
    if (typeof given === 'string' && WELL_FORMED.test(given)) return given;
    count += 1;
    return `${process}-${count.toString(36)}`;
  };
}
