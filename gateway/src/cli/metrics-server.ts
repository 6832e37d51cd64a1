import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, isIPv6 } from 'node:net';
import { StartError } from '@stevedore/wire';
import type { MetricsText } from '../observe/node-metrics.js';
import { UsageError } from './errors.js';

/** `GET /metrics` of a tracker or storage, on a port of its own, for one Prometheus and its like. */

export interface MetricsServer {
  /** `http://127.0.0.1:9464/metrics` */
  readonly url: string;
  close(): Promise<void>;
}

const MAX_CONNECTIONS = 16;
const HEAD_TIMEOUT_MS = 5_000;
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export interface MetricsAddress {
  readonly host: string;
  readonly port: number;
}

/** Reads `9464`, `10.0.0.7:9464` or `[::1]:9464`; undefined for an empty text. */
export function metricsAddress(text: string): MetricsAddress | undefined {
  if (text === '') return undefined;
  const match = /^(?:(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]]+)):)?(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (!match || port > 65_535) throw new UsageError(`--metrics "${text}" is not HOST:PORT or PORT`);
  return { host: match[1] ?? match[2] ?? '127.0.0.1', port };
}

/** Resolves when it listens. Rejects with StartError. */
export async function startMetricsServer(
  { host, port }: MetricsAddress,
  text: MetricsText,
): Promise<MetricsServer> {
  const server = createServer(
    { headersTimeout: HEAD_TIMEOUT_MS, requestTimeout: HEAD_TIMEOUT_MS },
    (request, response) => {
      // What a client sends beside the head is of no use to anyone.
      request.resume();
      const path = request.url?.split('?', 1)[0];
      const isRead = request.method === 'GET' || request.method === 'HEAD';
      if (path !== '/metrics' || !isRead) {
        response.writeHead(path === '/metrics' ? 405 : 404).end();
        return;
      }
      text().then(
        (body) => response.writeHead(200, { 'content-type': CONTENT_TYPE }).end(body),
        () => response.writeHead(500).end(),
      );
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  const listening = once(server, 'listening');
  server.listen({ host, port });
  try {
    await listening;
  } catch (error) {
    const { code = 'listen_failed', message } = error as NodeJS.ErrnoException;
    throw new StartError(
      code,
      `Metrics cannot be served at ${host}:${port}: ${message}. Choose another --metrics.`,
      error,
    );
  }
  server.on('error', () => undefined);
  const bound = (server.address() as AddressInfo).port;
  return {
    url: `http://${isIPv6(host) ? `[${host}]` : host}:${bound}/metrics`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
