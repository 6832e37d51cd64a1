import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { soon } from '../../soon.js';

/** Requests to a gateway of several workers, which say what process has answered. */

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Which process has answered. */
  readonly process: string;
}

/** Over a connection of its own, unless one is given. */
export function ask(
  url: string,
  path: string,
  { method = 'GET', body, headers = {}, agent }: Ask = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = { method, headers, agent: agent ?? new Agent() };
    const asking = request(`${url}${path}`, options, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const process = String(response.headers['x-request-id']).split('-')[0]!;
        const { statusCode: status = 0, headers: given } = response;
        resolve({ status, headers: given, body: Buffer.concat(chunks), process });
      });
    });
    asking.on('error', reject);
    asking.end(body);
  });
}

export interface Ask {
  readonly method?: string;
  readonly body?: string | Buffer;
  readonly headers?: Record<string, string>;
  readonly agent?: Agent;
}

/** One kept connection to each worker. */
export async function connections({ url }: { url: string }, workers: number): Promise<Agent[]> {
  const agents = new Map<string, Agent>();
  await soon(async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const { process } = await ask(url, '/health/live', { agent });
    if (!agents.has(process)) agents.set(process, agent);
    if (agents.size < workers) throw new Error(`${agents.size} of ${workers} workers found`);
  });
  return [...agents.values()];
}
