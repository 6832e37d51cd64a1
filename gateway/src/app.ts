import { readFile } from 'node:fs/promises';
import type { OutgoingHttpHeaders } from 'node:http';
import { isStoreError, type StoreStats } from '@stevedore/client';
import type { GatewayStore } from '@stevedore/client/internal';
import {
  demandNoFragment,
  Files,
  isFault,
  type PictureMaker,
  ProblemError,
  parseQuery,
  type ResourcePolicy,
  type UploadMarks,
} from '@stevedore/middleware/core';
import { streamBodies } from '@stevedore/middleware/fastify';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Logger } from 'pino';
import { Access } from './access/access.js';
import { UnfinishedCharges } from './access/ledger.js';
import { allowOrigins, demandHost, type HostNames } from './access/origins.js';
import { PolicyFile, type PolicySource } from './access/policies.js';
import { ConsoleFeed, type ConsoleSource, type FeedOptions } from './console/feed.js';
import { clientAddressBy, forwardedFor, trustedProxies } from './http/addresses.js';
import {
  answerClientError,
  Connections,
  refuseWhileClosing,
  type Take,
} from './http/connections.js';
import { Direct, type DirectOptions } from './http/direct.js';
import { Forwarder } from './http/forward.js';
import { addPublicBase, publicBaseBy } from './http/public-address.js';
import { problemOf } from './http/route.js';
import { RequestDurations } from './observe/durations.js';
import { makeLog } from './observe/log.js';
import { observe, Refusals, requestIds, requestLog } from './observe/requests.js';
import { defaultLimits, type GatewayOptions, type Limits } from './options.js';
import { PACKAGE, version } from './program.js';
import { consoleRoutes } from './routes/console.js';
import { directCalls, fileRoutes } from './routes/files.js';
import { flushRoutes } from './routes/flush.js';
import { policyRoutes } from './routes/policies.js';
import { healthRoutes, metricsRoutes } from './routes/watching.js';
import type { ProcessFigures } from './workers/totals.js';

/**
 * The gateway's HTTP side over any GatewayStore, without a listening port. It never closes the store.
 */

export interface AppOptions
  extends Partial<
    Pick<GatewayOptions, 'serveTrunks' | 'inlineTypes' | 'corsOrigins' | 'trustProxy'>
  > {
  readonly store: GatewayStore;
  readonly limits?: Partial<Limits>;
  /** Default: everything is open. */
  readonly access?: Access;
  /** Upload policies by name; `default` is that of `POST /files`. */
  readonly policies?: PolicySource | undefined;
  /** `Cross-Origin-Resource-Policy` of files; default `same-site`. */
  readonly resourcePolicy?: ResourcePolicy;
  /** Default: every host name is served. */
  readonly hostNames?: HostNames | undefined;
  /** Where clients reach the gateway, as `parsePublicUrl` returns it; default: as its proxy says. */
  readonly publicUrl?: string;
  /** Called with the server's own errors; clients see no more than `internal`. */
  readonly onError?: (error: unknown) => void;
  /** Default: none. */
  readonly log?: Logger;
  /** `/metrics` also has memory, CPU and event loop of this process; default false. */
  readonly processMetrics?: boolean;
  /** Figures of the store and of other parts; default: of the store alone. */
  readonly stats?: () => StoreStats;
  /** Stores what is staged; default: as the store does. */
  readonly flush?: GatewayStore['flush'];
  /** Receives the metrics of this process, returns the text of `/metrics`. */
  readonly metrics?: (own: () => Promise<ProcessFigures>) => () => Promise<string>;
  /** Data for the console; default: of this process. */
  readonly console?: ConsoleSource;
  /** What the console says of the gateway, if its data are of this process. */
  readonly feed?: Omit<FeedOptions, 'store'>;
  /** Marks of uploads in progress, and spent ones; default: those of this process. */
  readonly marks?: UploadMarks | undefined;
  /** Serves pictures in other sizes; default: files as they are. */
  readonly pictures?: PictureMaker | undefined;
  /** Takes requests that another process of the gateway answers. Default: none. */
  readonly passOn?: Take | undefined;
}

/** Longest part of a path: a file name of percent-encoded bytes. */
const MAX_PARAMETER_CHARS = 4096;

export function buildApp(options: AppOptions): FastifyInstance {
  const limits: Limits = Object.freeze({ ...defaultLimits, ...options.limits });
  const {
    store,
    log = makeLog('silent', 'json'),
    hostNames,
    corsOrigins = [],
    trustProxy = [],
  } = options;
  const { access = new Access({ corsOrigins }), passOn = () => false } = options;
  const policies = options.policies ?? { current: {} };
  const trusts = trustedProxies(trustProxy);
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
  const { unsent } = files;
  const refuse = ({ raw }: FastifyRequest, reply: FastifyReply, problem: ProblemError): void => {
    const others = reply.getHeaders() as OutgoingHttpHeaders;
    files.refuse(raw, reply.hijack().raw, problem, others);
  };
  const failed: DirectOptions['refuse'] = (error, request, response, headers) => {
    const problem = problemOf(error);
    if (isFault(problem.code)) {
      log.error({ requestId: headers['x-request-id'], err: error }, 'request failed');
      options.onError?.(error);
    }
    files.refuse(request, response, problem, headers);
  };
  const baseOf = publicBaseBy(options.publicUrl ?? '', trusts);
  const clientAddress = clientAddressBy(trustProxy.length > 0 ? trusts : undefined);
  const requestId = requestIds();
  const refusals = new Refusals(log);
  const durations = new RequestDurations();
  const connections = new Connections(limits, unsent);
  const logRequest = requestLog(log, clientAddress);
  const direct = new Direct({
    files: store.cached,
    requestId,
    durations,
    unsent,
    hostNames,
    keepAliveMs: limits.keepAliveMs,
    maxBytes: limits.maxBufferedBytes,
    send: (...answer) => files.send(...answer),
    refuse: failed,
    log: logRequest,
  });
  const refuseFragment: Take = (request, response) => {
    try {
      demandNoFragment(request.url ?? '');
      return false;
    } catch (error) {
      refusals.note('bad_request', request.socket.remoteAddress);
      failed(error, request, response, { 'x-request-id': requestId(request) });
      return true;
    }
  };
  const app = fastify({
    serverFactory: (handle) => {
      const takes: Take[] = [refuseFragment, passOn, (...asked) => direct.take(...asked)];
      return connections.serve(takes, (request, response) => {
        const { 'x-forwarded-for': named } = request.headers;
        if (named !== undefined) request.headers['x-forwarded-for'] = forwardedFor(`${named}`);
        handle(request, response);
      });
    },
    // A hook writes the lines: a logger for each request would cost more.
    logger: false,
    genReqId: requestId,
    exposeHeadRoutes: false,
    // Only named proxies are trusted about the addresses of their clients.
    trustProxy: trustProxy.length > 0 && ((address: string) => trusts(address)),
    return503OnClosing: false,
    schemaController: COMPILE_NOTHING,
    routerOptions: { maxParamLength: MAX_PARAMETER_CHARS, querystringParser: parseQuery },
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
  const registry = observe(app, {
    store,
    stats: options.stats ?? (() => store.stats()),
    logRequest,
    processMetrics: options.processMetrics ?? false,
    refusals,
    durations,
    unsent,
  });
  addPublicBase(app, baseOf);
  allowOrigins(app, corsOrigins);
  streamBodies(app);
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
    const others = reply.getHeaders() as OutgoingHttpHeaders;
    failed(error, request.raw, reply.hijack().raw, { ...others, 'x-request-id': request.id });
  });
  app.setNotFoundHandler((request, reply) => {
    refuse(request, reply, new ProblemError('route_not_found', 'There is nothing at this path.'));
  });

  const own = { version: version(), embedded: false, showsIds: !access.isOpen };
  const feed = new ConsoleFeed({ ...own, ...options.feed, store });
  const figures = async () => (await registry.getMetricsAsJSON()) as ProcessFigures;
  const metrics = options.metrics?.(figures) ?? (() => registry.metrics());
  const forwarder = new Forwarder();
  const charges = new UnfinishedCharges({
    ledger: access.ledger,
    now: Date.now,
    isKept: async (id) =>
      store.unfinished?.find(id) !== undefined ||
      (await store.stat(id, { onlyHere: true }).then(
        () => true,
        (error: unknown) => !isStoreError(error, 'not_found'),
      )),
  });
  app.addHook('onReady', async () => {
    charges.start();
    if (!options.console) feed.start();
  });
  app.addHook('preClose', async () => {
    direct.close();
  });
  app.addHook('onClose', async () => {
    if (policies instanceof PolicyFile) policies.file.close();
    await forwarder.close();
    charges.close();
    await access.close();
    feed.close();
    files.close();
  });
  app.decorate('leave', () => connections.leave(app.server));
  app.register(async (scope) => {
    healthRoutes(scope, store, connections);
    metricsRoutes(scope, { contentType: registry.contentType, metrics }, access);
    consoleRoutes(scope, { source: options.console ?? feed, access, store });
    policyRoutes(scope, access, policies);
    const serveTrunks = options.serveTrunks ?? false;
    const { deployment } = store;
    const flush: GatewayStore['flush'] = options.flush ?? ((how) => store.flush(how));
    flushRoutes(scope, { files, access, deployment, flush });
    fileRoutes(scope, { files, store, access, policies, charges, forwarder, serveTrunks, direct });
    // What is answered past the framework has no headers for pages of other origins.
    if (corsOrigins.length === 0) {
      direct.answerWith(directCalls({ files, access, policies, direct }, baseOf, clientAddress));
    }
    openapiRoute(scope);
  });
  return app;
}

/** The routes have no schemas: to load compilers of schemas would take a sixth of a start. */
const COMPILE_NOTHING: object = {
  compilersFactory: {
    buildValidator: () => () => () => true,
    buildSerializer: () => () => JSON.stringify,
  },
};

/** The description of the API, `openapi.json` of this package, with its version and address. */
function openapiRoute(app: FastifyInstance): void {
  app.get('/openapi.json', async ({ publicBase }, reply) => {
    const description = JSON.parse(await readFile(new URL('openapi.json', PACKAGE), 'utf8'));
    description.info.version = version();
    return reply
      .header('content-type', 'application/json; charset=utf-8')
      .header('cache-control', 'no-cache')
      .send(JSON.stringify({ ...description, servers: [{ url: publicBase || '/' }] }));
  });
}
