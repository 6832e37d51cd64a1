import { describe, expect, it } from 'vitest';
import { chooseServers } from '../../packages/storage/dist/io-tier/choice.js';
import {
  decodeChecks,
  encodeChecks,
  partLength,
  piecesOf,
  placeOf,
  stripeLength,
  stripesOf,
} from '../../packages/storage/dist/io-tier/layout.js';
import { Random } from '../support/random.js';

describe('the layout of a data file', () => {
  it('puts every byte into one part, and the parts have no holes', () => {
    const random = new Random(1);
    for (let turn = 0; turn < 200; turn += 1) {
      const stripeBytes = 1 + random.below(7);
      const servers = Array.from({ length: 1 + random.below(5) }, (_, n) => String(n));
      const size = random.below(120);
      const parts = servers.map(() => new Set<number>());
      for (let at = 0; at < size; at += 1) {
        const [piece] = piecesOf(at, 1, stripeBytes);
        const { server, offset } = placeOf(piece!.stripe, { stripeBytes, servers });
        parts[server]!.add(offset + piece!.from);
      }
      for (const [server, bytes] of parts.entries()) {
        const length = partLength(server, size, { stripeBytes, servers });
        expect([...bytes].sort((a, b) => a - b)).toEqual(
          Array.from({ length }, (_, index) => index),
        );
      }
      const lengths = Array.from({ length: stripesOf(size, stripeBytes) }, (_, stripe) =>
        stripeLength(stripe, size, stripeBytes),
      );
      expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(size);
    }
  });

  it('takes a request apart at the stripes', () => {
    expect(piecesOf(5, 10, 4)).toEqual([
      { stripe: 1, from: 1, at: 0, bytes: 3 },
      { stripe: 2, from: 0, at: 3, bytes: 4 },
      { stripe: 3, from: 0, at: 7, bytes: 3 },
    ]);
  });

  it('keeps checks as they were', () => {
    const checks = [0, 1, 2 ** 32 - 1, 2 ** 31];
    expect(decodeChecks(encodeChecks(checks))).toEqual(checks);
  });
});

describe('the servers of a new data file', () => {
  const server = (id: string, freeBytes: number, isActive = true) => ({
    id,
    host: '10.0.0.1',
    port: 1,
    totalBytes: 2 ** 40,
    freeBytes,
    isActive,
  });
  const wanted = { bytes: 1000, stripeBytes: 100, width: 2, turn: 0 };

  it('are those that live and have room, in turns', () => {
    const servers = [server('c', 1e6), server('a', 1e6), server('b', 1e6)];
    expect(chooseServers(servers, wanted)).toEqual(['a', 'b']);
    expect(chooseServers(servers, { ...wanted, turn: 2 })).toEqual(['c', 'a']);
    const some = [server('a', 1e6, false), server('b', 599), server('c', 600)];
    expect(chooseServers(some, wanted)).toEqual(['c']);
    expect(chooseServers([server('a', 1e6, false)], wanted)).toEqual([]);
  });
});
