import { describe, expect, test } from 'vitest';
import { BOUNDARY, FORM_END, formHead, part, raw, running } from '../gateway/harness.js';
import { attack, gatewayTarget, post, type Target } from './targets.js';

/** Attacks through multipart forms and the media types around them. */

const FILE = part('name="f"; filename="a"', 'x');

async function form(target: Target, body: string): Promise<number> {
  return (await raw(target.port, formHead(Buffer.byteLength(body)), body)).status;
}

describe('forms', () => {
  attack('a flood of parts', {}, async (target) => {
    await form(target, FILE.repeat(300) + FORM_END);
    return target.stored() > 100;
  });

  attack('a flood of headers in a part', {}, async (target) => {
    const headers = Array.from({ length: 2000 }, (_, index) => `X-${index}: y\r\n`).join('');
    return (await form(target, part('name="f"; filename="a"', 'x', headers) + FORM_END)) === 201;
  });

  attack('a header that is longer than any', {}, async (target) => {
    const headers = `X-Long: ${'y'.repeat(200_000)}\r\n`;
    return (await form(target, part('name="f"; filename="a"', 'x', headers) + FORM_END)) === 201;
  });

  attack('ends that are none', {}, async (target) => {
    const ends = [
      FILE,
      `${FILE}--${BOUNDARY}`,
      `${FILE}--${BOUNDARY}-`,
      `${FILE}--${BOUNDARY}\r\n--${BOUNDARY}--\r\n`,
      `--${BOUNDARY}\r\n\r\n\r\n`,
      `--${BOUNDARY}\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nx`,
      `--${BOUNDARY}\r\nContent-Disposition: form-data; name="f"; filename="a"`,
      `--${BOUNDARY}\r\n: \r\n\r\n${FORM_END}`,
    ];
    for (const body of ends) if ((await form(target, body)) === 201) return true;
    return target.stored() > 0;
  });

  test('names of what every object has are names', async () => {
    const gateway = await running();
    const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', ''];
    const headers = '__proto__: y\r\nconstructor: z\r\n';
    const parts = names.map((name) => part(`name="${name}"`, 'x')).join('');
    const body = parts + part('name="g"; filename="__proto__"', 'y', headers) + FORM_END;
    expect(await form(gatewayTarget(gateway), body)).toBe(201);
    const [stored] = [...gateway.store.files.values()];
    expect(stored?.info.name).toBe('__proto__');
    expect(Object.hasOwn(Object.prototype, 'x') || 'y' in {}).toBe(false);
  });
});

describe('media types', () => {
  attack('that only look like an allowed one', {}, async (target) => {
    const types = [
      'text/html; image/png',
      'text/html;x=image/png',
      'text/html, image/png',
      'image/png, text/html',
      'image/png\t/html',
      ' text/html ;image/',
      'image/',
      'image/png;',
    ];
    for (const type of types) {
      const { status } = await raw(
        target.port,
        `POST /uploads/images HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: ${type}\r\nContent-Length: 8\r\n\r\n<script>`,
      );
      if (status === 201) return true;
    }
    return false;
  });

  attack('that the first bytes belie', {}, async (target) => {
    const html = '<!doctype html><script>alert(1)</script>';
    const { status } = await post(target, html, { 'content-type': 'image/png' }, '/uploads/images');
    return status === 201;
  });
});
