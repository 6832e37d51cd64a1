import { existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startNaiveServer } from '../../support/attack/naive-server.js';
import { attack, post } from '../../support/attack/targets.js';
import {
  BOUNDARY,
  FORM_END,
  part,
  RawConnection,
  raw,
  running,
} from '../../support/gateway/harness.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Attacks through names, ids and claims. */

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
});
