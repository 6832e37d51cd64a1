import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/** Ports that are free now: a gateway has to say where it is reached before it listens. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  for (const server of servers) server.close();
  return ports;
}
