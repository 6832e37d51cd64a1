import type { IncomingMessage, Server } from 'node:http';

/**
 * Node answers a request that takes longer than `requestTimeout` with 408, also an upload that
 * makes progress. An app is warned of that once for each server, at the first upload, unless it has
 * chosen a time itself.
 */

/** Of a server for which nobody set it. */
const NODE_DEFAULT_MS = 300_000;
const seen = new WeakSet<Server>();

export function warnOfRequestTimeout({ socket }: IncomingMessage): void {
  // Undefined where something stands in for a connection.
  const { server } = (socket ?? {}) as { readonly server?: Server };
  if (!server || seen.has(server)) return;
  seen.add(server);
  if (server.requestTimeout !== NODE_DEFAULT_MS) return;
  process.emitWarning(
    'Node ends every upload to this server after 300 s. Set server.requestTimeout to 0, or to the time that an upload may take.',
    { code: 'STEVEDORE_REQUEST_TIMEOUT' },
  );
}
