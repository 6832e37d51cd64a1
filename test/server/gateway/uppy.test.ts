import { randomBytes } from 'node:crypto';
import type { HttpRequest, HttpResponse } from 'tus-js-client';
import { expect, test } from 'vitest';
import { cuttingProxy } from '../../support/cutting-proxy.js';
import { plainGateway } from '../../support/store.js';

interface UppyFile {
  readonly name: string;
  readonly uploadURL: string;
}

interface UppyClient {
  use(plugin: unknown, options: object): UppyClient;
  addFile(file: { readonly name: string; readonly type: string; readonly data: Buffer }): void;
  upload(): Promise<{
    readonly successful?: readonly UppyFile[];
    readonly failed?: readonly UppyFile[];
  }>;
}

/** Its types would bring a browser's globals into every test. */
const load = <Module>(name: string): Promise<Module> => import(name);
const { Uppy } = await load<{ readonly Uppy: new () => UppyClient }>('@uppy/core');
const { default: Tus } = await load<{ readonly default: unknown }>('@uppy/tus');

/** Uppy as its guide has it, with no more than the address; connections are cut meanwhile. */
test('Uppy uploads several files over cut connections, and is told their keys', async () => {
  const gateway = await plainGateway();
  const proxy = await cuttingProxy(Number(new URL(gateway.url).port));
  let cuts = 4;
  proxy.cutAfterBytes = () => (cuts-- > 0 ? 300_000 : undefined);
  const keys = new Map<string, string>();
  const uppy = new Uppy().use(Tus, {
    endpoint: `${proxy.url}/uploads`,
    retryDelays: [0, 10, 20, 50, 100, 200],
    onAfterResponse: (request: HttpRequest, response: HttpResponse) => {
      const key = response.getHeader('X-File-Key');
      if (key) keys.set(request.getURL(), key);
    },
  });
  const files = [5_000, 700_000, 1_500_000].map((size, at) => ({
    name: `photo ${at}.jpg`,
    bytes: randomBytes(size),
  }));
  for (const { name, bytes } of files) {
    uppy.addFile({
      name,
      type: 'image/jpeg',
      data: Object.assign(bytes, { size: bytes.length }) as never,
    });
  }
  const result = await uppy.upload();
  expect(result.failed).toEqual([]);
  for (const { name, bytes } of files) {
    const done = result.successful?.find((file) => file.name === name);
    const key = keys.get(String(done?.uploadURL))!;
    const stored = await gateway.store.get(key);
    expect([stored.name, stored.type]).toEqual([name, 'image/jpeg']);
    expect((await stored.bytes()).equals(bytes)).toBe(true);
  }
  expect(cuts).toBeLessThan(1);
  const sent = files.reduce((sum, { bytes }) => sum + bytes.length, 0);
  expect(proxy.passedBytes).toBeLessThan(sent + 4 * 300_000 + 20_000);
});
