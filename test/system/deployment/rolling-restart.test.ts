import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { connect } from '@stevedore/client/connect';
import { expect, onTestFinished, test, vi } from 'vitest';
import { type Daemon, daemonsIn, freePorts } from '../../support/kills/daemon.js';
import { needsNginx, startNginx } from '../../support/nginx.js';
import { ROOT } from '../../support/paths.js';
import { soon } from '../../support/soon.js';
import { temporaryFolder } from '../../support/temporary.js';

/**
 * Three gateways with second copies behind the nginx of the guide are restarted one after the
 * other, as for an upgrade, while clients upload, read and delete. Nothing is lost, and hardly a
 * request fails: the system resets a connection that arrives in the instant in which the port is
 * closed, and on a busy machine a start takes longer than requests wait for it.
 */

vi.setConfig({ testTimeout: 240_000 });

const PER_SECOND = 60;
const GATEWAYS = 3;
const PAGE = readFileSync(join(ROOT, 'docs', 'guides', 'deployment.md'), 'utf8');
const SITE = /^```nginx\n(.+?)^```$/ms.exec(PAGE)![1]!;

interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly body: string;
}

/** As curl does: a connection for each request, and no retry. */
function once(method: string, url: string, body?: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    request(url, { method, agent: false }, (response) => {
      response.toArray().then((chunks) => {
        const { statusCode: status = 0, headers } = response;
        const text = Buffer.concat(chunks).toString();
        resolve({ status, retryAfter: headers['retry-after'], body: text });
      }, reject);
    })
      .once('error', reject)
      .end(body);
  });
}

function nginx(folder: string, port: number, gateways: readonly number[]): string {
  const [, one = ''] = /(server 127\.0\.0\.1:8080.*;)/.exec(SITE) ?? [];
  const servers = gateways.map((each) => one.replace('8080', String(each))).join('\n  ');
  const site = SITE.replace(/^.*ssl_certificate.*$\n/gm, '')
    .replace(one, servers)
    .replace('listen 443 ssl', `listen 127.0.0.1:${port}`);
  return startNginx(folder, site);
}

async function deployment() {
  const folder = temporaryFolder();
  const [tracker, storage, proxy, ...ports] = await freePorts(3 + GATEWAYS);
  const start = daemonsIn(folder);
  const trackers = ['--trackers', `127.0.0.1:${tracker}`];
  await start(['tracker', '--port', String(tracker)]);
  const paths = ['--store-paths', join(folder, 's1')];
  await start(['storage', '--port', String(storage), ...trackers, ...paths]);
  const gateways: Daemon[] = [];
  for (const port of ports) {
    const own = ['--directory', join(folder, `g${port}`), '--port', String(port)];
    const peers = ['--map', `sqlite:${join(folder, 'map.db')}`, '--staged-copies', '2'];
    const peer = ['--peer-url', `http://127.0.0.1:${port}`, '--trust-proxy', '127.0.0.1'];
    gateways.push(await start(['gateway', ...own, ...trackers, ...peers, ...peer]));
  }
  const log = nginx(folder, proxy!, ports);
  const url = `http://127.0.0.1:${proxy}`;
  const isReady = (port: number): Promise<void> =>
    soon(async () => {
      expect((await once('GET', `http://127.0.0.1:${port}/health/ready`)).status).toBe(200);
    });
  await isReady(proxy!);
  return {
    url,
    log,
    gateways: gateways.map((daemon, n) => ({ daemon, isReady: () => isReady(ports[n]!) })),
  };
}

/** Requests at a steady rate until `stop`, and what went wrong. */
class Load {
  readonly failures: string[] = [];
  readonly files = new Map<string, string>();
  requests = 0;
  readonly #underWay = new Set<Promise<void>>();
  readonly #timer: NodeJS.Timeout;

  constructor(ask: (load: Load, n: number) => Promise<void>, perSecond: number) {
    this.#timer = setInterval(() => {
      const n = this.requests;
      this.requests += 1;
      const asked = ask(this, n)
        .catch((error: Error) => void this.failures.push(`${n}: ${error.message}`))
        .finally(() => this.#underWay.delete(asked));
      this.#underWay.add(asked);
    }, 1000 / perSecond);
  }

  /** Resolves after so many further requests. */
  async goOn(requests = 50): Promise<void> {
    const end = this.requests + requests;
    await soon(async () => expect(this.requests).toBeGreaterThan(end));
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#underWay);
  }

  /** One of the files that were acknowledged. */
  some(n: number): readonly [string, string] | undefined {
    const all = [...this.files];
    return all[(n * 7919) % Math.max(1, all.length)];
  }
}

const contentOf = (n: number): string => `file ${n} `.repeat(200);

function curls(url: string): Load {
  const demand = (what: string, expected: number, { status, retryAfter, body }: Answer): string => {
    if (status === expected) return body;
    throw new Error(`${what}: ${status} ${body.slice(0, 300)} (Retry-After ${retryAfter})`);
  };
  return new Load(async (load, n) => {
    const [key, content] = (n % 3 === 2 && load.some(n)) || [];
    if (key === undefined) {
      const sent = contentOf(n);
      const posted = demand('POST', 201, await once('POST', `${url}/files`, sent));
      load.files.set(JSON.parse(posted).key as string, sent);
    } else if (n % 30 === 29) {
      load.files.delete(key);
      demand('DELETE', 204, await once('DELETE', `${url}/files/${key}`));
    } else {
      const answer = await once('GET', `${url}/files/${key}`);
      // A deletion that was sent meanwhile may have overtaken this read.
      if (answer.status === 404 && !load.files.has(key)) return;
      expect(demand('GET', 200, answer) === content).toBe(true);
    }
  }, PER_SECOND);
}

function connected(url: string): Load {
  const store = connect({ url });
  onTestFinished(() => store.close());
  return new Load(async (load, n) => {
    const sent = contentOf(1_000_000 + n);
    const { key } = await store.put(sent);
    load.files.set(key, sent);
  }, PER_SECOND / 3);
}

test.skipIf(needsNginx.missing)(
  'a rolling restart loses nothing and fails hardly a request',
  async () => {
    const { url, log, gateways } = await deployment();
    const loads = [curls(url), connected(url)];
    await loads[0]!.goOn();
    for (const { daemon, isReady } of gateways) {
      await daemon.stop();
      daemon.start();
      await daemon.ready();
      await isReady();
      await loads[0]!.goOn();
    }
    await Promise.all(loads.map((load) => load.stop()));
    const failures = loads.flatMap((load) => load.failures);
    const isRetryable = (failure: string) => /: 502 |: 503 .*Retry-After \d/s.test(failure);
    expect(failures.filter((each) => !isRetryable(each))).toEqual([]);
    const requests = loads.reduce((sum, load) => sum + load.requests, 0);
    expect(failures.length / requests, readFileSync(log, 'utf8')).toBeLessThan(0.01);
    for (const { files } of loads) {
      for (const [key, content] of files) {
        const { status, body } = await once('GET', `${url}/files/${key}`);
        expect([status, body === content]).toEqual([200, true]);
      }
    }
  },
);
