import { readdirSync } from 'node:fs';
import type { Agent } from 'node:http';
import { join } from 'node:path';
import { type Gateway, startGateway } from '@stevedore/gateway';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { makeApiKey, writeKeyFile } from '../../../../gateway/dist/access/api-keys.js';
import { type Ask, ask, connections } from '../../../support/gateway/workers/asking.js';
import { metricsOf, pidsOf } from '../../../support/gateway/workers/processes.js';
import {
  type GatewayProcess,
  launchGatewayProcess,
  startGatewayProcess,
} from '../../../support/gateway-process.js';
import { freePorts } from '../../../support/kills/daemon.js';
import { soon } from '../../../support/soon.js';
import { ofSuite, temporaryFolder } from '../../../support/temporary.js';

/** `--workers`, as a user starts it. */

/** Each starts a gateway of several processes, or several. */
vi.setConfig({ testTimeout: 240_000 });

async function post(url: string, body: string | Buffer, how: Ask = {}): Promise<string> {
  const { status, body: answer } = await ask(url, '/files', { ...how, method: 'POST', body });
  expect([status, answer.toString()]).toEqual([201, expect.anything()]);
  return JSON.parse(answer.toString()).key;
}

describe('a gateway of three workers', () => {
  const directory = temporaryFolder(ofSuite);
  let gateway: GatewayProcess;
  let agents: Agent[];

  beforeAll(async () => {
    gateway = await launchGatewayProcess(directory, '--workers', '3', '--merge-max-age', '1h');
    agents = await connections(gateway, 3);
  });

  afterAll(async () => expect(await gateway.stop()).toBe(0));

  it('a key of any worker is read and deleted at every one, and the figures are those of all', async () => {
    const { url } = gateway;
    const keys: string[] = [];
    for (const [index, agent] of agents.entries()) {
      keys.push(await post(url, `file ${index}`, { agent }));
      keys.push(await post(url, Buffer.alloc(300_000, String(index)), { agent }));
    }
    for (const agent of agents) {
      // The second time from memory.
      for (const path of [...keys, ...keys].map((key) => `/files/${key}`)) {
        expect((await ask(url, path, { agent })).status).toBe(200);
      }
    }
    const read = await ask(url, `/files/${keys[0]}`, { agent: agents[2]! });
    expect(read.body.toString()).toBe('file 0');
    const figures = await metricsOf(gateway);
    expect(figures.get('stevedore_uploaded_files_total')).toBe(6);
    expect(figures.get('stevedore_staged_files')).toBe(6);
    expect(figures.get('stevedore_reads_total')).toBe(37);
    for (const worker of [1, 2, 3]) {
      expect(figures.get(`stevedore_worker_up{worker="${worker}"}`)).toBe(1);
    }
    const states = await Promise.all(agents.map((agent) => ask(url, '/console/state', { agent })));
    for (const { body } of states) {
      expect(JSON.parse(body.toString())).toMatchObject({
        embedded: true,
        ready: { ready: true },
        stats: { acknowledgedFiles: 6, reads: 37 },
        cluster: [{ group: 'group1', active: true }],
      });
    }
    // Every worker returns the same history.
    const histories = await Promise.all(
      agents.map((agent) => ask(url, '/console/history?span=day', { agent })),
    );
    for (const { body } of histories) {
      const { stepMs, at, uploadsPerSecond } = JSON.parse(body.toString());
      expect(stepMs).toBe(60_000);
      expect(at.length).toBeGreaterThan(0);
      expect(uploadsPerSecond).toHaveLength(at.length);
    }
    // Every worker can say where a file is.
    for (const agent of agents) {
      const { body } = await ask(url, `/console/file?id=${keys[0]}`, { agent });
      expect(JSON.parse(body.toString())).toMatchObject({ file: { key: keys[0] } });
    }
    // Each file at another worker than the one that has it.
    for (const [index, key] of keys.entries()) {
      const agent = agents[(Math.floor(index / 2) + 1) % 3]!;
      expect((await ask(url, `/files/${key}`, { method: 'DELETE', agent })).status).toBe(204);
      for (const other of agents) {
        expect((await ask(url, `/files/${key}`, { agent: other })).status).toBe(404);
      }
      expect((await ask(url, `/files/${key}`, { method: 'DELETE', agent })).status).toBe(404);
    }
  });

  it('an upload in several requests goes on at every worker, and is joined', async () => {
    const { url } = gateway;
    const tus = { 'tus-resumable': '1.0.0' };
    const bytes = { ...tus, 'content-type': 'application/offset+octet-stream' };
    const parts: string[] = [];
    for (const agent of agents) {
      const begin = { ...tus, 'upload-length': '15', 'upload-concat': 'partial' };
      const begun = await ask(url, '/uploads', { method: 'POST', agent, headers: begin });
      expect(begun.status).toBe(201);
      const path = String(begun.headers.location);
      for (const [index, other] of agents.entries()) {
        const offset = { ...bytes, 'upload-offset': String(index * 5) };
        const sent = { method: 'PATCH', agent: other, body: `part${index}`, headers: offset };
        expect((await ask(url, path, sent)).status).toBe(204);
      }
      parts.push(path);
    }
    for (const agent of agents) {
      const known = await ask(url, parts[0]!, { method: 'HEAD', agent, headers: tus });
      expect(known.headers['upload-offset']).toBe('15');
    }
    const join = { ...tus, 'upload-concat': `final;${parts.join(' ')}` };
    const joined = await ask(url, '/uploads', { method: 'POST', agent: agents[1]!, headers: join });
    expect(joined.status).toBe(201);
    for (const agent of agents) {
      const { body } = await ask(url, `/files/${joined.headers['x-file-key']}`, { agent });
      expect(body.toString()).toBe('part0part1part2'.repeat(3));
    }
    for (const agent of agents) {
      const gone = await ask(url, parts[0]!, { method: 'HEAD', agent, headers: tus });
      expect(gone.status).toBe(404);
    }
  });

  it('a worker that hangs is replaced, and the others serve its files meanwhile', async () => {
    const { url } = gateway;
    const keys = await Promise.all(
      agents.map((agent, index) => post(url, `at ${index}`, { agent })),
    );
    const [hung] = pidsOf(gateway);
    process.kill(hung!, 'SIGSTOP');
    // One of them is on its way to the worker that hangs, and is closed when that is killed.
    const asked = [1, 2, 3, 4].map(() =>
      ask(url, '/health/live').then(
        ({ status }) => status,
        ({ code }) => code,
      ),
    );
    expect((await Promise.all(asked)).sort()).toEqual([200, 200, 200, 'ECONNRESET']);
    await soon(async () => {
      const now = pidsOf(gateway);
      expect([now.length, now.includes(hung!)]).toEqual([3, false]);
      const figures = await metricsOf(gateway);
      for (const worker of [1, 2, 3]) {
        expect(figures.get(`stevedore_worker_up{worker="${worker}"}`)).toBe(1);
      }
    });
    for (const agent of await connections(gateway, 3)) {
      for (const [index, key] of keys.entries()) {
        const { status, body } = await ask(url, `/files/${key}`, { agent });
        expect([status, body.toString()]).toEqual([200, `at ${index}`]);
      }
    }
  });
});

describe('a gateway of two workers, with API keys and a map,', () => {
  const bytesPerDay = 1_000_000;
  const now = new Date();
  const limited = makeApiKey({ name: 'a', scopes: ['read', 'write'], bytesPerDay: 100 }, now);
  const rated = makeApiKey({ name: 'b', scopes: ['read'], requestsPerSecond: 0.1 }, now);
  const admin = makeApiKey({ name: 'c', scopes: ['admin', 'read', 'write', 'delete'] }, now);
  const common = makeApiKey({ name: 'e', scopes: ['write', 'admin'], bytesPerDay }, now);
  const directory = temporaryFolder(ofSuite);
  const map = `sqlite:${join(directory, 'map.db')}`;
  const apiKeys = join(directory, 'keys.json');
  let gateway: GatewayProcess;
  let agents: Agent[];
  /** Another one of its deployment, in this process. */
  let other: Gateway;

  beforeAll(async () => {
    const keys = [limited, rated, admin, common].map(({ key }) => key);
    await writeKeyFile(apiKeys, keys);
    const [port] = await freePorts(1);
    gateway = await launchGatewayProcess(
      ...[join(directory, 'g1'), '--workers', '2', '--api-keys', apiKeys, '--map', map],
      ...['--port', String(port), '--peer-url', `http://127.0.0.1:${port}`],
      ...['--merge-max-age', '1h'],
    );
    agents = await connections(gateway, 2);
    other = await startGateway({
      ...{ directory: join(directory, 'g2'), port: 0, map, apiKeys, logLevel: 'silent' },
      ...{ trackers: `127.0.0.1:${gateway.trackerPort}`, mergeMaxAge: '1h' },
    });
  });

  afterAll(async () => {
    await other.close();
    expect(await gateway.stop()).toBe(0);
  });

  it('quotas, idempotency keys and rates are those of the gateway, not of a worker', async () => {
    const { url } = gateway;
    const [one, two] = agents as [Agent, Agent];
    const headers = { authorization: `Bearer ${limited.text}` };
    await post(url, 'x'.repeat(60), { agent: one, headers });
    const repeated = { ...headers, 'idempotency-key': 'once' };
    const first = await post(url, 'y'.repeat(20), { agent: one, headers: repeated });
    expect(await post(url, 'y'.repeat(20), { agent: two, headers: repeated })).toBe(first);
    // 20 bytes are left.
    const rest = { agent: two, headers, method: 'POST', body: 'x'.repeat(60) };
    expect((await ask(url, '/files', rest)).status).toBe(429);
    for (const agent of agents) {
      const asked = { agent, headers: { authorization: `Bearer ${admin.text}` } };
      await soon(async () => {
        const { body } = await ask(url, '/console/access', asked);
        expect(JSON.parse(body.toString()).keys).toContainEqual(
          expect.objectContaining({ name: 'a', bytesToday: 80 }),
        );
      });
    }
    const often = { authorization: `Bearer ${rated.text}` };
    const counts = await Promise.all(
      agents.flatMap((agent) =>
        [1, 2, 3].map(() => ask(url, `/files/${first}/info`, { agent, headers: often })),
      ),
    );
    expect(counts.filter(({ status }) => status === 200).length).toBe(1);
  });

  it('counts together with others of its deployment', async () => {
    const headers = { authorization: `Bearer ${common.text}` };
    let stored = 0;
    const upload = async ({ url }: { url: string }, bytes: number) => {
      const how = { headers, method: 'POST', body: Buffer.alloc(bytes) };
      const { status } = await ask(url, '/files', how);
      if (status === 201) stored += bytes;
      else expect(status).toBe(429);
    };
    await Promise.all(
      Array.from({ length: 60 }, (_, index) => upload([gateway, other][index % 2]!, 40_000)),
    );
    expect(stored).toBeGreaterThan(bytesPerDay / 2);
    expect(stored).toBeLessThanOrEqual(bytesPerDay);
    for (const each of [gateway, other]) {
      await soon(async () => {
        if (bytesPerDay - stored > 0) await upload(each, Math.min(40_000, bytesPerDay - stored));
        expect(bytesPerDay - stored).toBe(0);
      });
      const { body } = await ask(each.url, '/console/access', { headers });
      expect(JSON.parse(body.toString()).keys).toContainEqual(
        expect.objectContaining({ name: 'e', bytesToday: bytesPerDay }),
      );
    }
  });

  it('is as many servers of its deployment, beside those of other machines', async () => {
    const headers = { authorization: `Bearer ${admin.text}` };
    const keys = await Promise.all(
      agents.map((agent, index) => post(gateway.url, `staged at ${index}`, { agent, headers })),
    );
    const readEverywhere = async (expected: (index: number) => unknown) => {
      const ways = [...agents.map((agent) => ({ url: gateway.url, agent })), { url: other.url }];
      for (const { url, ...how } of ways) {
        for (const [index, key] of keys.entries()) {
          await soon(async () => {
            const { status, body } = await ask(url, `/files/${key}`, how);
            expect([status, status === 200 && body.toString()]).toEqual(expected(index));
          });
        }
      }
    };
    // Staged: whichever worker the request meets, it reads the directory of the one that has it.
    await readEverywhere((index) => [200, `staged at ${index}`]);
    // Another machine deletes it: the right worker here does it.
    const removed = await ask(other.url, `/files/${keys[0]}`, { method: 'DELETE', headers });
    expect(removed.status).toBe(204);
    await readEverywhere((index) => (index === 0 ? [404, false] : [200, `staged at ${index}`]));
  });

  it('a start that fails at one worker is an error, and nothing goes on', async () => {
    const again = startGatewayProcess(join(directory, 'g1'), '--workers', '2');
    await expect(again).rejects.toThrow('ended with code 1');
    const port = new URL(gateway.url).port;
    const other = startGatewayProcess(temporaryFolder(), '--workers', '2', '--port', port);
    await expect(other).rejects.toThrow('ended with code 1');
    expect((await ask(gateway.url, '/health/ready')).status).toBe(200);
  });
});

it('fewer or more workers at the next start keep every file, and merge it', async () => {
  const directory = temporaryFolder();
  const keys: string[] = [];
  const flags = (workers: number) => ['--workers', String(workers), '--merge-max-age', '100ms'];
  for (const workers of [3, 1, 2]) {
    const gateway = await startGatewayProcess(directory, ...flags(workers));
    const agents = await connections(gateway, workers);
    for (const agent of agents) keys.push(await post(gateway.url, `at ${workers}`, { agent }));
    for (const agent of agents) {
      for (const key of keys) {
        expect((await ask(gateway.url, `/files/${key}`, { agent })).status).toBe(200);
      }
    }
    for (const key of keys) {
      await soon(async () => {
        const { body } = await ask(gateway.url, `/files/${key}/info`);
        expect(JSON.parse(body.toString())).toMatchObject({ state: 'merged' });
      });
    }
    // The one that this worker has beside its own.
    const last = keys.pop()!;
    expect((await ask(gateway.url, `/files/${last}`, { method: 'DELETE' })).status).toBe(204);
    const extra = keys.shift()!;
    expect((await ask(gateway.url, `/files/${extra}`, { method: 'DELETE' })).status).toBe(204);
    expect((await ask(gateway.url, `/files/${extra}`)).status).toBe(404);
    expect(await gateway.stop()).toBe(0);
  }
  expect(readdirSync(join(directory, 'workers'))).toEqual(expect.arrayContaining(['2', '3']));
});
