import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { type FileStore, isStoreError, type StoreStats } from '@stevedore/client';
import {
  Files,
  isFault,
  type PictureMaker,
  ProblemError,
  type ResourcePolicy,
  type UnsentBytes,
  type UploadMarks,
} from '@stevedore/middleware/core';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Logger } from 'pino';
import { Access } from './access/access.js';
import { allowOrigins, demandHost, type HostNames } from './access/origins.js';
import type { Policies } from './access/policies.js';
import { UnfinishedCharges } from './access/unfinished-charges.js';
import { ConsoleFeed, type ConsoleSource } from './console/feed.js';
import type { AskMigration } from './console/migrations.js';
import type { Finding } from './doctor/finding.js';
import { answerClientError, Connections, refuseWhileClosing } from './http/connections.js';
import { Forwarder } from './http/forward.js';
import { addPublicBase, trustedProxies } from './http/public-address.js';
import { ReadyAnswers } from './http/ready-answers.js';
import { problemOf } from './http/route.js';
import type { RequestDurations } from './observe/durations.js';
import { makeLog } from './observe/log.js';
import { observe, Refusals, type RequestIds, requestIds } from './observe/requests.js';
import { describeApi, openapiRoute } from './openapi/openapi.js';
import { defaultLimits, type Limits } from './options.js';
import { version } from './package-files.js';
import { consoleRoutes } from './routes/console.js';
import { fileRoutes } from './routes/files.js';
import { healthRoutes, metricsRoutes } from './routes/watching.js';
import type { ProcessFigures } from './workers/totals.js';

/**
 * The gateway's HTTP side over any FileStore, without a listening port. It never closes the store.
 */

export interface AppOptions {
  readonly store: FileStore;
  /** Aborted when the gateway is about to stop: it is no longer ready. */
  readonly leaving?: AbortSignal;
  readonly limits?: Partial<Limits>;
  /** Serves whole trunks by their ids too; default false. */
  readonly serveTrunks?: boolean;
  /** Default: everything is open. */
  readonly access?: Access;
  /** Upload policies by name; `default` is that of `POST /files`. */
  readonly policies?: Policies;
  /** Types that are displayed inline although a browser might run them. */
  readonly inlineTypes?: readonly string[];
  /** Origins whose pages may use the gateway; `*` for all of them. */
  readonly corsOrigins?: readonly string[];
  /** `Cross-Origin-Resource-Policy` of files; default `same-site`. */
  readonly resourcePolicy?: ResourcePolicy;
  /** Default: every host name is served. */
  readonly hostNames?: HostNames;
  /** Addresses and networks of proxies whose X-Forwarded headers are trusted. */
  readonly trustProxy?: readonly string[];
  /** Where clients reach the gateway, as `parsePublicUrl` returns it; default: as its proxy says. */
  readonly publicUrl?: string;
  /** Called with the server's own errors; clients see no more than `internal`. */
  readonly onError?: (error: unknown) => void;
  /** Default: none. */
  readonly log?: Logger;
  /** The console shows that tracker and storage run in this process; default false. */
  readonly embedded?: boolean;
  /** Asks a storage for its moves, for the console. Default: asks none. */
  readonly askMigration?: AskMigration;
  /** `/metrics` also has memory, CPU and event loop of this process; default false. */
  readonly processMetrics?: boolean;
  /** Figures of the store and of other parts; default: of the store alone. */
  readonly stats?: () => StoreStats;
  /** Receives the metrics of this process, returns the text of `/metrics`. */
  readonly metrics?: (own: () => Promise<ProcessFigures>) => () => Promise<string>;
  /** Data for the console; default: of this process. */
  readonly console?: ConsoleSource;
  /** What the console says about who reaches the gateway. Default: nothing. */
  readonly exposure?: Finding;
  /** `mergeMaxAge` of the store, for the console. */
  readonly mergeMaxAgeMs?: number;
  /** Marks of uploads in progress, and spent ones; default: those of this process. */
  readonly marks?: UploadMarks | undefined;
  /** Serves pictures in other sizes; default: files as they are. */
  readonly pictures?: PictureMaker | undefined;
}

/** Longest part of a path: a file name of percent-encoded bytes. */
const MAX_PARAMETER_CHARS = 4096;

export function buildApp(options: AppOptions): FastifyInstance {
  const limits: Limits = Object.freeze({ ...defaultLimits, ...options.limits });
  const { store, log = makeLog('silent'), hostNames } = options;
  const { trustProxy = [] } = options;
  const trusts = trustedProxies(trustProxy);
  const { access = new Access({ corsOrigins: options.corsOrigins ?? [] }) } = options;
  const files = new Files({
    store,
    limits,
    presentation: {
      inlineTypes: new Set(options.inlineTypes),
      resourcePolicy: options.resourcePolicy ?? 'same-site',
    },
    marks: options.marks,
    pictures: options.pictures,
    onError: (error) => log.error({ err: error }, 'answer ended early'),
  });
  const refuse = ({ raw }: FastifyRequest, reply: FastifyReply, problem: ProblemError): void => {
    const others = reply.getHeaders() as OutgoingHttpHeaders;
    files.refuse(raw, reply.hijack().raw, problem, others);
  };
  const requestId = requestIds();
  const refusals = new Refusals(log);
  const app = fastify({
    // A hook writes the lines: a logger for each request would cost more.
    logger: false,
    genReqId: requestId,
    exposeHeadRoutes: false,
    // Only named proxies are trusted about the addresses of their clients.
    trustProxy: trustProxy.length > 0 && ((address: string) => trusts(address)),
    return503OnClosing: false,
    routerOptions: { maxParamLength: MAX_PARAMETER_CHARS },
    keepAliveTimeout: limits.keepAliveMs,
    connectionTimeout: limits.idleMs,
    // No timeout for a whole request: uploads may take long as long as they progress.
    requestTimeout: 0,
    http: {
      headersTimeout: limits.headerTimeoutMs,
      connectionsCheckingInterval: limits.checkIntervalMs,
      requireHostHeader: true,
    },
    clientErrorHandler: (error, socket) => {
      const code = answerClientError(error, socket, limits);
      if (code !== undefined) refusals.note(code, socket.remoteAddress);
    },
    frameworkErrors: (error, request, reply) => {
      const problem = problemOf(error);
      refusals.note(problem.code, request.ip);
      refuse(request, reply, problem);
    },
  });
  const { unsent } = files;
  const connections = new Connections(limits.maxConnections, unsent, options.leaving);
  const processMetrics = options.processMetrics ?? false;
  const { registry, durations } = observe(app, {
    ...{ store, log, processMetrics, refusals, unsent },
    stats: options.stats ?? (() => store.stats()),
  });
  addPublicBase(app, options.publicUrl ?? '', trusts);
  allowOrigins(app, options.corsOrigins ?? []);
  askBeforeContinue(app);
  takeBodiesAsTheyCome(app);
  // After CORS, so that a page can read a refusal.
  app.after(() => {
    refuseWhileClosing(app, connections);
    // Such a body is never read and never timed, so it could arrive for ever.
    app.addHook('onRequest', ({ method, raw }, reply, done) => {
      if (method !== 'POST' && method !== 'PATCH') files.closeIfUnread(raw, reply.raw);
      done();
    });
    demandHost(app, hostNames);
  });

  app.setErrorHandler((error, request, reply) => {
    const problem = problemOf(error);
    if (isFault(problem.code)) {
      log.error({ requestId: request.id, err: error }, 'request failed');
      options.onError?.(error);
    }
    refuse(request, reply, problem);
  });
  app.setNotFoundHandler((request, reply) => {
    const problem = new ProblemError('route_not_found', 'There is nothing at this path.');
    refuse(request, reply, problem);
  });

  const { embedded = false, askMigration } = options;
  const feed = options.console
    ? undefined
    : new ConsoleFeed({
        ...{ store, version: version(), embedded, askMigration },
        showsIds: !access.isOpen,
        access: options.exposure,
        mergeMaxAgeMs: options.mergeMaxAgeMs,
      });
  const figures = async () => (await registry.getMetricsAsJSON()) as ProcessFigures;
  const metrics = options.metrics?.(figures) ?? (() => registry.metrics());
  const ready = readyAnswers(app, store, log, { requestId, durations, unsent, hostNames });
  connections.attach(app.server);
  const forwarder = new Forwarder();
  const charges = new UnfinishedCharges({
    ...{ ledger: access.ledger, now: Date.now },
    isKept: async (id) =>
      store.unfinished?.find(id) !== undefined ||
      (await store.stat(id, { onlyHere: true }).then(
        () => true,
        (error: unknown) => !isStoreError(error, 'not_found'),
      )),
  });
  app.addHook('onClose', async () => {
    await forwarder.close();
    charges.close();
    await access.close();
    feed?.close();
    files.close();
  });
  describeApi(app);
  app.register(async (scope) => {
    healthRoutes(scope, store, options.leaving);
    metricsRoutes(scope, { contentType: registry.contentType, metrics }, access);
    const source = options.console ?? feed!;
    consoleRoutes(scope, { source, access, policies: options.policies ?? {}, store });
    fileRoutes(scope, {
      files,
      store,
      access,
      policies: options.policies ?? {},
      charges,
      forwarder,
      serveTrunks: options.serveTrunks ?? false,
      ready,
    });
    openapiRoute(scope);
  });
  return app;
}

/** None if every request is logged. */
function readyAnswers(
  app: FastifyInstance,
  { cached }: FileStore,
  log: Logger,
  {
    requestId,
    durations,
    unsent,
    hostNames,
  }: {
    requestId: RequestIds;
    durations: RequestDurations;
    unsent: UnsentBytes;
    hostNames: HostNames | undefined;
  },
): ReadyAnswers | undefined {
  if (!cached || log.isLevelEnabled('info')) return undefined;
  const ready = new ReadyAnswers({
    ...{ files: cached, requestId, unsent, hostNames },
    durationsOf: (route) => durations.series('GET', route, 200),
  });
  ready.attach(app.server);
  app.addHook('preClose', async () => ready.close());
  return ready;
}

/** The upload itself answers `Expect: 100-continue`, once it has read the headers. */
function askBeforeContinue(app: FastifyInstance): void {
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    app.server.emit('request', request, response);
  });
}

/** No body is parsed before its handler runs, whatever its type. */
function takeBodiesAsTheyCome(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
}
