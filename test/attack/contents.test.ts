import { existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { signedDownload } from '@stevedore/middleware/core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Access } from '../../gateway/dist/access/access.js';
import { makeLog } from '../../gateway/dist/observe/log.js';
import { BOUNDARY, FORM_END, part, RawConnection, raw, running } from '../gateway/harness.js';
import { temporaryFolder } from '../support/temporary.js';
import { startNaiveServer } from './naive-server.js';
import { attack, post } from './targets.js';

/** Attacks through names, ids, contents and tokens. */

describe('names', () => {
  test('never become paths, on the gateway; on a naive server they do', async () => {
    const gateway = await running();
    const naive = await startNaiveServer(join(temporaryFolder(), 'files'));
    onTestFinished(() => naive.close());
    const outside = dirname(naive.folder);
    writeFileSync(join(outside, 'secret'), 'secret of the host');
    for (const { port, url } of [gateway, naive]) {
      await fetch(`${url}/files`, {
        method: 'POST',
        headers: { 'x-filename': encodeURIComponent('../escaped-raw') },
        body: 'x',
      });
      const form = part('name="f"; filename="../escaped-form"', 'x') + FORM_END;
      await raw(
        port,
        `POST /files HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${form.length}\r\nContent-Type: multipart/form-data; boundary=${BOUNDARY}\r\n\r\n${form}`,
      );
    }
    expect(
      existsSync(join(outside, 'escaped-raw')) && existsSync(join(outside, 'escaped-form')),
    ).toBe(true);
    expect([...gateway.store.files.values()].map(({ info }) => info.name)).toEqual([
      '../escaped-raw',
      '../escaped-form',
    ]);
    const paths = [
      '..%2fsecret',
      '%2e%2e/secret',
      '..%5csecret',
      '..%00/../secret',
      '%252e%252e%252fsecret',
    ];
    const leaks = async (port: number, prefix: string) => {
      let found = 0;
      for (const path of paths) {
        const connection = new RawConnection(port);
        void connection.send(
          `GET ${prefix}${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
        );
        if ((await connection.answer()).body.includes('secret of the host')) found += 1;
      }
      return found;
    };
    expect(await leaks(naive.port, '/files/')).toBeGreaterThan(0);
    for (const prefix of ['/files/', '/group1/', '/group1/M00/', '/']) {
      expect(await leaks(gateway.port, prefix)).toBe(0);
    }
    expect(gateway.store.asked).toEqual([]);
  });

  attack('that bring headers along', {}, async (target) => {
    const name = encodeURIComponent('a"\r\nSet-Cookie: session=stolen\r\n\r\n<script>');
    const { key } = await post(target, 'x', { 'x-filename': name, 'content-type': 'image/png' });
    const { head } = await raw(
      target.port,
      `GET /files/${key} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
    );
    return /^set-cookie:/im.test(head);
  });
});

describe('what clients claim', () => {
  attack('to be another host', {}, async (target) => {
    const headers = { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https' };
    const { location } = await post(target, 'x', headers);
    return location?.includes('evil.example') ?? true;
  });

  attack('that a file is elsewhere', {}, async (target) => {
    let asked = 0;
    const inner = createServer((_, response) => {
      asked += 1;
      response.end('inner');
    });
    await new Promise<void>((resolve) => inner.listen(0, '127.0.0.1', resolve));
    const { port } = inner.address() as AddressInfo;
    const url = `http://127.0.0.1:${port}/latest/meta-data`;
    await post(target, url, { 'content-type': 'text/uri-list' }, `/files?url=${url}`);
    await post(target, JSON.stringify({ url }), { 'content-type': 'application/json' });
    await new Promise((resolve) => inner.close(resolve));
    return asked > 0;
  });
});

describe('contents', () => {
  attack('that a browser would run', {}, async (target) => {
    const contents: [string, string][] = [
      ['text/html', '<script>alert(1)</script>'],
      ['image/svg+xml', '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'],
      ['application/xhtml+xml', '<html xmlns="http://www.w3.org/1999/xhtml"/>'],
      ['text/xml', '<?xml-stylesheet href="x.xsl"?><x/>'],
      ['text/javascript', 'alert(1)'],
    ];
    for (const [type, text] of contents) {
      const { key } = await post(target, text, { 'content-type': type });
      const { headers } = await fetch(`${target.url}/files/${key}`);
      const kept = headers.get('content-disposition')?.startsWith('attachment') === true;
      const sniffed = headers.get('x-content-type-options') !== 'nosniff';
      const sandboxed = headers.get('content-security-policy')?.includes('sandbox') === true;
      if (!kept || sniffed || !sandboxed) return true;
    }
    return false;
  });

  test('that unpack to more than they are stay packed, or are refused', async () => {
    const gateway = await running({ limits: { maxFileBytes: 100_000 } });
    const bomb = gzipSync(Buffer.alloc(20 * 2 ** 20));
    const upload = (headers: Record<string, string>) =>
      fetch(`${gateway.url}/files`, { method: 'POST', body: new Uint8Array(bomb), headers });
    const packed = await upload({ 'content-type': 'application/gzip' });
    expect(await packed.json()).toMatchObject({ size: bomb.length });
    const coded = await upload({ 'content-encoding': 'gzip' });
    expect(await coded.json()).toMatchObject({ status: 415, code: 'unsupported_encoding' });
    expect(coded.headers.get('accept-encoding')).toBe('identity');
  });
});

describe('what must not be guessed', () => {
  attack('the key of the next file', {}, async (target) => {
    const { key } = await post(target, 'mine', { 'content-type': 'image/png' });
    await post(target, 'yours', { 'content-type': 'image/png' });
    const guesses = /^\d+$/.test(key)
      ? [String(Number(key) + 1)]
      : Array.from({ length: 64 }, (_, bit) => {
          const bytes = Buffer.from(key, 'base64url');
          const at = bytes.length - 1 - Math.floor(bit / 8);
          bytes[at] = bytes[at]! ^ (1 << (bit % 8));
          return bytes.toString('base64url');
        });
    for (const guess of guesses) {
      if ((await (await fetch(`${target.url}/files/${guess}`)).text()) === 'yours') return true;
    }
    return false;
  });

  test('a signed URL is no good for another file, nor a token that is empty', async () => {
    const urlSecrets = ['a secret of the tests'];
    const access = new Access({ urlSecrets, antiLeech: { secret: 's', ttlMs: 1000 } });
    const gateway = await running({ access });
    const [mine, yours] = [await gateway.store.put('mine'), await gateway.store.put('yours')];
    const url = signedDownload(urlSecrets[0]!, mine.key, new Date(Date.now() + 60_000));
    expect((await fetch(gateway.url + url)).status).toBe(200);
    expect((await fetch(gateway.url + url.replace(mine.key, yours.key))).status).toBe(403);
    const id = 'group1/M00/00/00/wKgAAWl2Y2SAAAAABAAAAHqsT7I123.jpg';
    gateway.store.settle(mine.key, id);
    for (const query of [
      '',
      '?token=&ts=',
      '?token&ts',
      '?ts=0',
      `?token=${'0'.repeat(32)}&ts=0`,
    ]) {
      expect((await fetch(`${gateway.url}/${id}${query}`)).status, query).toBe(400);
    }
  });
});

describe('what must not be told', () => {
  test('tokens and keys are not in the log, paths are not in the metrics', async () => {
    const lines: string[] = [];
    const log = makeLog('info', 'json', { write: (line: string) => lines.push(line) } as never);
    const gateway = await running({ log });
    const secrets = ['signature=SECRETSIG', 'token=SECRETTOK'];
    for (const secret of secrets) await fetch(`${gateway.url}/files/x?${secret}`);
    await fetch(`${gateway.url}/files`, {
      method: 'POST',
      body: 'x',
      headers: { authorization: 'Bearer stv_SECRETKEY', 'x-api-key': 'stv_SECRETKEY' },
    });
    const { key } = await gateway.store.put('x');
    await fetch(`${gateway.url}/files/${key}`);
    const before = (await (await fetch(`${gateway.url}/metrics`)).text()).split('\n').length;
    for (let index = 0; index < 200; index += 1)
      await fetch(`${gateway.url}/none-${index}/x${index}`);
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(metrics.split('\n').length).toBeLessThan(before + 60);
    expect(metrics).not.toContain('none-1');
    expect(lines.length).toBeGreaterThan(200);
    expect(lines.join('')).not.toMatch(/SECRET/);
    expect(lines.join('')).not.toContain(key);
  });
});
