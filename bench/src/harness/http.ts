import { once } from 'node:events';
import { type Agent, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** Listens on a free loopback port; resolves with it. */
export async function portOf(server: Pick<Server, 'listen' | 'address'>): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

export interface Asked {
  /** Default: this machine. */
  readonly host?: string | undefined;
  readonly port: number;
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string | undefined;
}

/** The body of an answer, over connections that are kept; rejects for one that is no success. */
export function ask(agent: Agent, { body, host = '127.0.0.1', ...asked }: Asked): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const sent = request({ ...asked, host, agent }, (response) => {
      buffer(response).then((bytes) => {
        const { statusCode = 0 } = response;
        if (statusCode < 300) resolve(bytes);
        else reject(new Error(`${asked.path} was answered ${statusCode}: ${bytes}`));
      }, reject);
    });
    sent.on('error', reject).end(body);
  });
}
