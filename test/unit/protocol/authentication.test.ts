import {
  beginAuthentication,
  clientProof,
  encodeRequest,
  isSameProof,
  ProtocolError,
  parseSecrets,
  proveAuthentication,
  secretsProblem,
  serverProof,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';

const bytes = (from: number): Buffer => Buffer.from(Array.from({ length: 32 }, (_, i) => from + i));
const nonces = { client: bytes(0), server: bytes(32) };
const SECRET = 'Nur für uns: 16+';

describe('the proofs of a secret', () => {
  it('are HMACs over a label and both nonces, as another program computes them', () => {
    expect(clientProof(SECRET, nonces).toString('hex')).toBe(
      '1eff212894513b1c0bc7c850e8607b90b664465141acab59a69e7fc7e2251f9f',
    );
    expect(serverProof(SECRET, nonces).toString('hex')).toBe(
      '6aa5aea91a7028c65f1a945088dee4f37792bf33796fe4969b6116f48746396b',
    );
  });

  it('differ for another secret, either nonce and the other end', () => {
    const all = [
      clientProof(SECRET, nonces),
      serverProof(SECRET, nonces),
      clientProof(`${SECRET}.`, nonces),
      clientProof(SECRET, { ...nonces, client: bytes(1) }),
      clientProof(SECRET, { ...nonces, server: bytes(1) }),
      clientProof(SECRET, { client: nonces.server, server: nonces.client }),
    ];
    expect(new Set(all.map((each) => each.toString('hex'))).size).toBe(all.length);
    expect(isSameProof(all[0]!, Buffer.from(all[0]!))).toBe(true);
    expect(isSameProof(all[0]!, all[1]!)).toBe(false);
    expect(isSameProof(all[0]!, all[0]!.subarray(1))).toBe(false);
  });
});

it('the commands of authentication carry 32 bytes, no more and no fewer', () => {
  expect(encodeRequest(beginAuthentication, bytes(0)).toString('hex')).toBe(
    `0000000000000020dc00${bytes(0).toString('hex')}`,
  );
  expect(encodeRequest(proveAuthentication, bytes(7)).toString('hex')).toBe(
    `0000000000000020dd00${bytes(7).toString('hex')}`,
  );
  for (const { request, reply } of [beginAuthentication, proveAuthentication]) {
    for (const codec of [request, reply]) {
      expect(() => codec.decode(Buffer.alloc(31))).toThrow(ProtocolError);
      expect(() => codec.decode(Buffer.alloc(33))).toThrow(ProtocolError);
    }
  }
});

describe('a file of secrets', () => {
  it('has one a line, and remarks', () => {
    expect(
      parseSecrets('\ufeff# mine\r\n  first-secret-of-16 \n\nsecond one has spaces\n'),
    ).toEqual(['first-secret-of-16', 'second one has spaces']);
    expect(parseSecrets('\n# nothing\n')).toEqual([]);
  });

  it('has one to eight, of 16 bytes at least', () => {
    const good = 'x'.repeat(16);
    expect(secretsProblem([good])).toBeUndefined();
    expect(secretsProblem(Array(8).fill(good))).toBeUndefined();
    expect(secretsProblem([])).toContain('no secret');
    expect(secretsProblem([`${good}\n`])).toContain('line break');
    expect(secretsProblem([good, 'short'])).toContain('16 bytes');
    expect(secretsProblem(Array(9).fill(good))).toContain('more than 8');
  });
});
