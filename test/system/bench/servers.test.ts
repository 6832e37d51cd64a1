import type { IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { parseArguments } from '../../../bench/dist/harness/arguments.js';
import { cpuSecondsOf, listenersOf } from '../../../bench/dist/harness/process-cpu.js';
import { openAdapter } from '../../../bench/dist/servers/adapters.js';
import { acknowledges, parseServer } from '../../../bench/dist/servers/kinds.js';
import { serving } from '../../support/serving.js';

test('servers are named by kind and address, and the report says what each acknowledges', () => {
  const { servers } = parseArguments(
    ['servers', '--server', 'nginx=http://127.0.0.1:81/x', '--server', 'fastdfs=10.0.0.1:22122'],
    ['servers'],
  );
  expect(servers).toEqual([
    { kind: 'nginx', address: 'http://127.0.0.1:81/x' },
    { kind: 'fastdfs', address: '10.0.0.1:22122' },
  ]);
  expect(() => parseServer('apache=http://127.0.0.1')).toThrow('KIND=ADDRESS is needed');
  expect(() => parseServer('nginx=')).toThrow('KIND=ADDRESS is needed');
  const filer = (address: string) => acknowledges({ kind: 'seaweedfs-filer', address });
  expect(filer('http://127.0.0.1:8888?fsync=true')).toContain('on the disk');
  expect(filer('http://127.0.0.1:8888')).toContain('page cache');
});

async function answering(answer: (request: IncomingMessage) => object): Promise<URL> {
  const url = await serving(async (request, response) => {
    await buffer(request);
    response.end(JSON.stringify(answer(request)));
  });
  return new URL(url);
}

test('ids of a SeaweedFS volume are assigned by its master, all at once', async () => {
  const master = await answering(({ url }) => {
    expect(url).toBe('/dir/assign?count=3');
    return { fid: '3,01637037d6', url: '127.0.0.1:8080', count: 3 };
  });
  const address = `${master.origin}?fsync=true`;
  const adapter = openAdapter({ kind: 'seaweedfs-volume', address })!;
  expect(await adapter.places(3)).toEqual([
    { put: '/3,01637037d6?fsync=true', get: '/3,01637037d6' },
    { put: '/3,01637037d6_1?fsync=true', get: '/3,01637037d6_1' },
    { put: '/3,01637037d6_2?fsync=true', get: '/3,01637037d6_2' },
  ]);
  expect(adapter.target).toMatchObject({ host: '127.0.0.1', port: 8080 });
});

test('the CPU of a server on this machine is found by its port', async () => {
  const { port } = await answering(() => ({}));
  const listeners = listenersOf('127.0.0.1', Number(port));
  if (process.platform !== 'linux') return;
  expect(listeners).toEqual([process.pid]);
  expect(cpuSecondsOf(listeners)).toBeGreaterThan(0);
  expect(cpuSecondsOf(listenersOf('192.0.2.1', Number(port)))).toBeUndefined();
});
