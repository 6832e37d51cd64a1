import { checkToken, makeToken, signedUrl } from '@stevedore/fastdfs';
import { describe, expect, it } from 'vitest';
import { HELLO_ID } from '../support/good-server.js';

const secret = 'FastDFS1234567890';

describe('a signed URL', () => {
  it('carries a token over the name without its group', () => {
    const url = new URL(
      signedUrl(HELLO_ID, {
        baseUrl: 'https://files.example.com/',
        secret,
        timestampSeconds: 1795205340,
      }),
    );
    expect(url.pathname).toBe(`/${HELLO_ID}`);
    const token = url.searchParams.get('token')!;
    const name = HELLO_ID.slice('group1/'.length);
    expect(token).toBe(makeToken(name, secret, 1795205340));
    const check = { name, token, timestampSeconds: 1795205340, secret, lifetimeSeconds: 600 };
    expect(checkToken({ ...check, nowSeconds: 1795205940 })).toBe('ok');
    expect(checkToken({ ...check, nowSeconds: 1795205941 })).toBe('expired');
    expect(checkToken({ ...check, nowSeconds: 0, secret: 'other' })).toBe('wrong');
  });

  it('is of now, keeps the path of its base and names the file', () => {
    const before = Math.floor(Date.now() / 1000);
    const url = new URL(
      signedUrl(HELLO_ID, { baseUrl: 'http://cdn/files', secret, fileName: 'a b.txt' }),
    );
    expect(url.pathname).toBe(`/files/${HELLO_ID}`);
    expect(Number(url.searchParams.get('ts'))).toBeGreaterThanOrEqual(before);
    expect(url.searchParams.get('filename')).toBe('a b.txt');
  });

  it('is refused for what cannot be one', () => {
    expect(() => signedUrl('group1/x', { baseUrl: 'http://cdn', secret })).toThrow(/file id/);
    expect(() => signedUrl(HELLO_ID, { baseUrl: 'cdn', secret })).toThrow(/baseUrl/);
    const timestampSeconds = 1.5;
    expect(() => signedUrl(HELLO_ID, { baseUrl: 'http://cdn', secret, timestampSeconds })).toThrow(
      /timestampSeconds/,
    );
  });
});
