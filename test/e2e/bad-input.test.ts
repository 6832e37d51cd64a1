import { chmodSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { isStoreError } from '@stevedore/client';
import { startGateway } from '@stevedore/gateway';
import { formatFileId, parseFileId, parseSliceId } from '@stevedore/protocol';
import { describe, expect, onTestFinished, test } from 'vitest';
import { spawnSync } from '../support/child-process.js';
import { COMMAND, startGatewayProcess } from '../support/gateway-process.js';
import { temporaryFolder } from '../support/temporary.js';

/** A real gateway over a real node: what must be refused, and what must not be found. */

async function running(options: Parameters<typeof startGateway>[0] = {}) {
  const gateway = await startGateway({
    idMaxAge: 0,
    directory: temporaryFolder(),
    port: 0,
    trackerPort: 0,
    storagePort: 0,
    trunkSize: '1MiB',
    smallFileLimit: '256KiB',
    retain: 0,
    cacheSize: 0,
    ...options,
  });
  onTestFinished(() => gateway.close());
  return gateway;
}

/** Takes a slice id apart by hand and puts it together with other numbers. */
function forge(id: string, change: (own: Buffer, trunk: Buffer) => void): string {
  const parts = id.split('/');
  const base = parts.pop()!;
  const own = Buffer.from(base.slice(0, 27), 'base64url');
  const trunk = Buffer.from(base.slice(27, 49), 'base64url');
  change(own, trunk);
  return [...parts, own.toString('base64url') + trunk.toString('base64url') + base.slice(49)].join(
    '/',
  );
}

describe('over HTTP', () => {
  test('a forged slice, with and without a range, is 404 and gives no byte of a neighbour', async () => {
    const { url, store } = await running();
    const receipts = [];
    for (let index = 0; index < 5; index++) {
      receipts.push(await store.put(Buffer.alloc(5000, `secret ${index} `), { name: 'a.txt' }));
    }
    await store.flush();
    const id = await store.settled(receipts[2]!.key);
    expect((await fetch(`${url}/${id}`)).status).toBe(200);
    const offset = parseSliceId(id)!.offset;
    const forgeries = {
      'offset moved back': forge(id, (_, trunk) => trunk.writeUInt32BE(offset - 5000, 12)),
      'offset moved by one': forge(id, (_, trunk) => trunk.writeUInt32BE(offset + 1, 12)),
      'offset of nothing': forge(id, (_, trunk) => trunk.writeUInt32BE(0, 12)),
      'size grown': forge(id, (own) => own.writeUInt32BE(9000, 12)),
      'size shrunk': forge(id, (own) => own.writeUInt32BE(10, 12)),
      'CRC-32 changed': forge(id, (own) => own.writeUInt32BE(1, 16)),
      'another trunk': forge(id, (_, trunk) => trunk.writeUInt32BE(7, 8)),
      'another extension': id.replace(/\.txt$/, '.jpg'),
      'no extension': id.replace(/\.txt$/, ''),
    };
    for (const [what, forged] of Object.entries(forgeries)) {
      expect(forged, what).not.toBe(id);
      for (const headers of [{}, { range: 'bytes=0-99' }, { range: 'bytes=-5' }]) {
        const response = await fetch(`${url}/${forged}`, { headers });
        expect(response.status, `${what}: ${forged}`).toBe(404);
        expect(await response.text()).not.toContain('secret');
      }
    }
  });

  test("a trunk's own id is 404, unless trunks are served", async () => {
    for (const serveTrunks of [false, true]) {
      const { url, store } = await running({ serveTrunks });
      const { key } = await store.put('x', { name: 'a.txt' });
      await store.flush();
      const trunk = formatFileId(parseSliceId(await store.settled(key))!.trunk);
      expect(parseFileId(trunk)).toBeDefined();
      expect((await fetch(`${url}/${trunk}`)).status).toBe(serveTrunks ? 200 : 404);
    }
  });

  test('a deleted file is 404 by key and by slice id, and deleting it again too', async () => {
    const { url, store } = await running();
    const { key } = await store.put('x', { name: 'a.txt' });
    await store.flush();
    const id = await store.settled(key);
    expect((await fetch(`${url}/files/${key}`, { method: 'DELETE' })).status).toBe(204);
    expect((await fetch(`${url}/files/${key}`)).status).toBe(404);
    expect((await fetch(`${url}/${id}`)).status).toBe(404);
    expect((await fetch(`${url}/files/${key}`, { method: 'DELETE' })).status).toBe(404);
  });

  test('a tracker that is not there: uploads are taken, ready says 503 and why', async () => {
    const { url, store } = await running({ trackers: ['127.0.0.1:1'] });
    store.on('error', () => {});
    const posted = await fetch(`${url}/files`, { method: 'POST', body: 'still taken' });
    expect(posted.status).toBe(201);
    const { key } = (await posted.json()) as { key: string };
    expect(await (await fetch(`${url}/files/${key}`)).text()).toBe('still taken');
    const ready = await fetch(`${url}/health/ready`);
    expect(ready.status).toBe(503);
    expect(await ready.json()).toMatchObject({ accepting: true, trackerReachable: false });
    expect((await fetch(`${url}/health/live`)).status).toBe(200);
  });

  test('a full container is 507 with Retry-After, and reads go on', async () => {
    const { url, store } = await running({
      trackers: ['127.0.0.1:1'],
      containerSize: '2MiB',
    });
    store.on('error', () => {});
    const body = Buffer.alloc(200_000, 'x');
    const statuses: number[] = [];
    let first = '';
    for (let index = 0; index < 12; index++) {
      const posted = await fetch(`${url}/files`, { method: 'POST', body });
      statuses.push(posted.status);
      const answer = (await posted.json()) as { key?: string; code?: string };
      first ||= answer.key ?? '';
      if (posted.status !== 201) {
        expect([posted.status, answer.code]).toEqual([507, 'container_full']);
        expect(Number(posted.headers.get('retry-after'))).toBeGreaterThan(0);
      }
    }
    expect(statuses.slice(0, 5)).toEqual([201, 201, 201, 201, 201]);
    expect(statuses.at(-1)).toBe(507);
    expect((await fetch(`${url}/files/${first}`)).status).toBe(200);
  });
});

describe('at start, as one clear sentence and exit code 1', () => {
  function start(directory: string, ...flags: string[]) {
    const ports = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];
    const args = [COMMAND, 'gateway', '--directory', directory, ...ports, ...flags];
    const { status, stderr } = spawnSync(process.execPath, args, {
      encoding: 'utf8',
      timeout: 30_000,
    });
    return { status, stderr };
  }

  function expectRefusal(
    outcome: { status: number | null; stderr: string },
    pattern: RegExp,
  ): void {
    expect(outcome.stderr).toMatch(pattern);
    expect(outcome.stderr).not.toMatch(/\n\s+at /);
    expect(outcome.stderr.trim().split('\n').length).toBe(1);
    expect(outcome.status).toBe(1);
  }

  test('a second process on the same directory; the first goes on', async () => {
    const directory = temporaryFolder();
    const first = await startGatewayProcess(directory);
    expectRefusal(start(directory), /in use by another process/);
    const posted = await fetch(`${first.url}/files`, { method: 'POST', body: 'x' });
    expect(posted.status).toBe(201);
    expect(await first.stop()).toBe(0);
  });

  test('a port in use', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as { port: number };
    for (const flag of ['--port', '--tracker-port', '--storage-port']) {
      expectRefusal(start(temporaryFolder(), flag, String(port)), new RegExp(`${port}`));
    }
  });

  test('a directory that cannot be made or written', async () => {
    expectRefusal(start('/proc/nope'), /\/proc\/nope/);
    const folder = join(temporaryFolder(), 'closed');
    mkdirSync(folder);
    chmodSync(folder, 0o500);
    // A superuser may write everywhere.
    if (process.getuid?.() !== 0) expectRefusal(start(folder), /cannot be (used|written)/);
  });

  test('the SDK says the same with its codes', async () => {
    const failed = await running({ directory: '/dev/null/x' }).catch((error) => error);
    expect(isStoreError(failed, 'directory_unusable')).toBe(true);
  });
});
