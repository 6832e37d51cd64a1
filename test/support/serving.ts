import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Server as NetServer } from 'node:net';
import { onTestFinished } from 'vitest';

/** The URL of a server on a free port of this machine, until the test ends. */
export async function serving(given: RequestListener | NetServer): Promise<string> {
  const server = typeof given === 'function' ? createServer({ requestTimeout: 0 }, given) : given;
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    if ('closeAllConnections' in server) (server as Server).closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
