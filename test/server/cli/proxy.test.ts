import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { run } from '../../support/cli/run.js';
import { keyFile, newKey } from '../../support/gateway/guarded.js';
import { serving } from '../../support/serving.js';
import { openGateway } from '../../support/store.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Commands reach a gateway through the proxy that the environment names. */

/** Forwards requests for plain HTTP, as proxies do, and notes them; it tunnels nothing. */
async function proxy() {
  const asked: string[] = [];
  const url = await serving((from, to) => {
    asked.push(`${from.method} ${from.url}`);
    const { method, headers } = from;
    const onward = request(from.url!, { method, headers }, (answer) => {
      to.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(to);
    });
    from.pipe(onward);
  });
  return { url, asked };
}

test('put, get and ls go through it, but not to a host of NO_PROXY', async () => {
  const key = newKey({ scopes: ['read', 'write', 'list'] });
  const gateway = await openGateway({ apiKeys: await keyFile(key) });
  const { url, asked } = await proxy();
  const cwd = temporaryFolder();
  writeFileSync(join(cwd, 'a.txt'), 'text');
  const env = { STEVEDORE_URL: gateway.url, STEVEDORE_API_KEY: key.text, HTTP_PROXY: url };
  const put = await run(['put', 'a.txt', '--json'], { cwd, env });
  expect(put.code).toBe(0);
  const stored = (JSON.parse(put.stdout) as { readonly key: string }).key;
  const got = await run(['get', stored], { cwd, env });
  expect(got.stdout).toBe('text');
  expect((await run(['ls', '--keys'], { cwd, env })).stdout).toBe(`${stored}\n`);
  expect(asked).toEqual([
    expect.stringContaining(`GET ${gateway.url}/files?once=`),
    `POST ${gateway.url}/files`,
    `GET ${gateway.url}/files/${stored}`,
    expect.stringContaining(`GET ${gateway.url}/files?`),
  ]);
  const direct = { ...env, NO_PROXY: 'other.example, 127.0.0.1' };
  expect((await run(['get', stored], { cwd, env: direct })).stdout).toBe('text');
  expect(asked).toHaveLength(4);
});

test("the gateway's own key goes to no proxy", async () => {
  const directory = temporaryFolder();
  const gateway = await openGateway({ directory });
  const { key } = await gateway.store.put('text');
  const { url, asked } = await proxy();
  const env = { STEVEDORE_URL: gateway.url, STEVEDORE_DIRECTORY: directory, HTTP_PROXY: url };
  expect((await run(['ls', '--keys'], { env })).stdout).toBe(`${key}\n`);
  expect(asked).toEqual([]);
});

test('what is no URL of a proxy is wrong usage', async () => {
  const env = { STEVEDORE_URL: 'http://10.0.0.1:8080', HTTP_PROXY: 'proxy:3128' };
  const wrong = await run(['stat', 'KEY'], { env });
  expect([wrong.code, wrong.stderr]).toEqual([
    2,
    expect.stringMatching(/^stevedore: HTTP_PROXY or HTTPS_PROXY is not the URL of a proxy/),
  ]);
});
