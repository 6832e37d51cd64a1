import { describe, expect, test } from 'vitest';
import { FORM_END, formHead, part, raw, running } from '../gateway/harness.js';
import { attack, gatewayTarget, type Target } from './targets.js';

/** Attacks through multipart forms and the media types around them. */

async function form(target: Target, body: string): Promise<number> {
  return (await raw(target.port, formHead(Buffer.byteLength(body)), body)).status;
}

describe('forms', () => {
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
});
