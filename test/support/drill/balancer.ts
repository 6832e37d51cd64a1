import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import type { Random } from '../random.js';

/**
 * The balancer of the drill: any gateway, over kept connections, with what the deployment guide
 * sets. A request goes to another gateway only if the first one has refused the connection.
 */

export interface Ask {
  readonly method: string;
  readonly path: string;
  readonly body?: Buffer;
  readonly headers?: Readonly<Record<string, string | number>>;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly url: string;
}

/** The connection ended before the answer was whole. */
export class Cut extends Error {
  readonly url: string;

  constructor(url: string, cause: Error) {
    super(`${url}: ${cause.message}`, { cause });
    this.url = url;
  }
}

interface Server {
  readonly url: string;
  readonly agent: Agent;
  avoidedUntil: number;
}

const AVOIDED_MS = 1_000;
const IDLE_MS = 60_000;
const ANSWER_LIMIT_MS = 150_000;

export class Balancer {
  readonly #random: Random;
  #servers: readonly Server[] = [];

  constructor(random: Random) {
    this.#random = random;
  }

  get urls(): readonly string[] {
    return this.#servers.map(({ url }) => url);
  }

  add(url: string): void {
    const agent = new Agent({ keepAlive: true, maxFreeSockets: 32, timeout: IDLE_MS });
    this.#servers = [...this.#servers, { url, agent, avoidedUntil: 0 }];
  }

  /** Requests that are under way there go on. */
  remove(url: string): void {
    this.#servers = this.#servers.filter((server) => server.url !== url);
  }

  /** Rejects with `Cut`. If every gateway refuses the connection, the answer is a 502 of its own. */
  async ask(ask: Ask): Promise<Answer> {
    const now = performance.now();
    const start = this.#random.below(this.#servers.length);
    const turn = [...this.#servers.slice(start), ...this.#servers.slice(0, start)];
    const [good, bad] = [true, false].map((isGood) =>
      turn.filter(({ avoidedUntil }) => avoidedUntil <= now === isGood),
    );
    for (const server of [...good!, ...bad!]) {
      const answer = await askOne(server, ask);
      if (answer) return answer;
      server.avoidedUntil = performance.now() + AVOIDED_MS;
    }
    return { status: 502, headers: {}, body: Buffer.from('no gateway'), url: 'the balancer' };
  }

  /** At this gateway alone. */
  async askAt(url: string, ask: Ask): Promise<Answer> {
    const server = this.#servers.find((each) => each.url === url);
    const answer = server && (await askOne(server, ask));
    if (!answer) throw new Cut(url, new Error('refused'));
    return answer;
  }

  close(): void {
    for (const { agent } of this.#servers) agent.destroy();
  }
}

/** Undefined if the connection was refused. */
function askOne({ url, agent }: Server, ask: Ask): Promise<Answer | undefined> {
  const { method, path, body, headers = {} } = ask;
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException): void => {
      if (error.code === 'ECONNREFUSED') resolve(undefined);
      else reject(new Cut(url, error));
    };
    const signal = AbortSignal.timeout(ANSWER_LIMIT_MS);
    request(`${url}${path}`, { method, agent, headers: { ...headers }, signal }, (response) => {
      response.toArray().then((chunks) => {
        const { statusCode: status = 0 } = response;
        resolve({ status, headers: response.headers, body: Buffer.concat(chunks), url });
      }, fail);
    })
      .on('error', fail)
      .end(body);
  });
}
