import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { join } from 'node:path';
import { DefaultHttpStack } from 'tus-js-client';
import { expect, test } from 'vitest';
import { execFileSync } from '../support/child-process.js';
import { Running } from '../support/cli/run.js';
import { freePort } from '../support/free-port.js';
import { send } from '../support/gateway/tus.js';
import { needsNginx, startNginx } from '../support/nginx.js';
import { ROOT } from '../support/paths.js';
import { hasCommand, requirement } from '../support/requirements.js';
import { soon } from '../support/soon.js';
import { temporaryFolder } from '../support/temporary.js';

/** The nginx of the guide in front of a gateway, as on one machine. */

const [SITE, BELOW_PATH] = ['guides/deployment.md', 'HTTP.md'].map((page) => {
  const text = readFileSync(join(ROOT, 'docs', page), 'utf8');
  return /^```nginx\n(.+?)^```$/ms.exec(text)![1]!;
});

/** The site with what the guide puts in place of its locations. */
function siteBelowPath(): string {
  const kept = SITE!.split('\n').filter((line) => !/Prefix|location/.test(line));
  return kept.join('\n').replace(/\}\s*$/, `${BELOW_PATH}}`);
}

const HOST = 'files.example.com';
/** All of 127.0.0.0/8 is this machine, and nginx has another of its addresses. */
const CLIENT = '127.0.0.2';
const needsOpenssl = requirement('openssl', () => hasCommand('openssl', 'version'));

interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

class Proxied {
  readonly gateway: Running;
  readonly port: number;
  readonly certificate: Buffer;

  private constructor(gateway: Running, port: number, certificate: Buffer) {
    this.gateway = gateway;
    this.port = port;
    this.certificate = certificate;
  }

  static async start(flags: readonly string[], template = SITE!): Promise<Proxied> {
    const folder = temporaryFolder();
    const ports = ['--port', '0', '--tracker-port', '0', '--storage-port', '0'];
    const directory = ['--directory', join(folder, 'data')];
    const gateway = new Running(['gateway', ...ports, ...directory, ...flags]);
    const url = new URL(await gateway.ready());
    const key = join(folder, 'key.pem');
    const certificate = join(folder, 'certificate.pem');
    const named = ['-subj', `/CN=${HOST}`, '-addext', `subjectAltName=DNS:${HOST}`];
    const made = ['-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', certificate];
    execFileSync('openssl', ['req', '-x509', ...made, ...named], { stdio: 'ignore' });
    const port = await freePort();
    const site = template
      .replace('127.0.0.1:8080', url.host)
      .replace('listen 443', `listen 127.0.0.1:${port}`)
      .replace('/etc/ssl/files.pem', certificate)
      .replace('/etc/ssl/files.key', key);
    startNginx(folder, site);
    const proxied = new Proxied(gateway, port, readFileSync(certificate));
    await soon(async () => proxied.send('GET', '/'));
    return proxied;
  }

  send(
    method: string,
    path: string,
    { headers = {}, body }: { headers?: Record<string, string>; body?: Buffer } = {},
  ): Promise<Answer> {
    const options: RequestOptions = {
      localAddress: CLIENT,
      ...{ host: '127.0.0.1', port: this.port, servername: HOST, agent: false, method, path },
      ...{ headers: { host: HOST, ...headers }, ca: this.certificate },
    };
    return new Promise((resolve, reject) => {
      httpsRequest(options, (response) => {
        response
          .toArray()
          .then(
            (chunks) => resolve({ status: response.statusCode!, body: Buffer.concat(chunks) }),
            reject,
          );
      })
        .once('error', reject)
        .end(body);
    });
  }
}

test.skipIf(needsNginx.missing || needsOpenssl.missing)(
  'the nginx of the guide passes uploads, downloads and the addresses of clients',
  async () => {
    const flags = ['--host-names', HOST, '--trust-proxy', '127.0.0.1', '--log-level', 'info'];
    const proxied = await Proxied.start(flags);
    // More than nginx takes by default; and a page of this host is no page of another.
    const body = randomBytes(3_000_000);
    const headers = { 'content-type': 'image/jpeg', origin: `https://${HOST}` };
    const posted = await proxied.send('POST', '/files', { headers, body });
    expect(posted.status).toBe(201);
    const { url } = JSON.parse(posted.body.toString()) as { readonly url: string };
    expect((await proxied.send('GET', url)).body.equals(body)).toBe(true);
    const part = await proxied.send('GET', url, { headers: { range: 'bytes=10-19' } });
    expect([part.status, part.body]).toEqual([206, body.subarray(10, 20)]);
    expect((await proxied.send('GET', '/metrics')).status).toBe(404);
    const peers = await proxied.send('GET', '/peer/files');
    expect([peers.status, peers.body.toString()]).toEqual([404, expect.stringContaining('nginx')]);
    // nginx replaces what a client says about its own address.
    const invented = { 'x-forwarded-for': '203.0.113.9' };
    await proxied.send('GET', url, { headers: invented });
    await soon(() => expect(proxied.gateway.stderr).toContain(`"client":"${CLIENT}"`));
    expect(proxied.gateway.stderr).not.toContain('"client":"127.0.0.1"');
    expect(proxied.gateway.stderr).not.toContain('203.0.113.9');
  },
);

test.skipIf(needsNginx.missing || needsOpenssl.missing)(
  'an open gateway behind it answers to no name that it was not given',
  async () => {
    const proxied = await Proxied.start([]);
    const { status, body } = await proxied.send('GET', '/health/ready');
    expect([status, JSON.parse(body.toString())]).toMatchObject([421, { code: 'host_not_served' }]);
  },
);

test.skipIf(needsNginx.missing || needsOpenssl.missing)(
  'below a path, tus-js-client and the URLs in answers work, and a client cannot choose the path',
  async () => {
    const flags = ['--host-names', HOST, '--trust-proxy', '127.0.0.1'];
    const proxied = await Proxied.start(flags, siteBelowPath());
    const headers = { 'content-type': 'image/jpeg', 'x-forwarded-prefix': '/invented' };
    const posted = await proxied.send('POST', '/storage/files', { headers, body: randomBytes(9) });
    const { url } = JSON.parse(posted.body.toString()) as { readonly url: string };
    expect(url).toMatch(/^\/storage\/files\/[\w-]{22}$/);
    expect((await proxied.send('GET', url)).status).toBe(200);
    for (const hidden of ['/storage/metrics', '/files', '/metrics']) {
      expect((await proxied.send('GET', hidden)).status).toBe(404);
    }
    const body = randomBytes(700_000);
    const uploaded = await send(`https://127.0.0.1:${proxied.port}/storage`, body, {
      httpStack: new DefaultHttpStack({ ca: proxied.certificate, servername: HOST }),
      headers: { host: HOST },
      chunkSize: 300_000,
    });
    expect(uploaded.url).toMatch(/\/storage\/uploads\//);
    const read = await proxied.send('GET', `/storage/files/${uploaded.key}`);
    expect(read.body.equals(body)).toBe(true);
  },
);
