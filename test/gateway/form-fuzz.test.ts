import { describe, expect, test } from 'vitest';
import { BOUNDARY, FORM_END, formHead, part, raw, running } from './harness.js';

/** A small generator with a seed, so that a failure can be seen again. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const PIECES = [
  '\r\n',
  '\r',
  '\n',
  '--',
  `--${BOUNDARY}`,
  `\r\n--${BOUNDARY}--`,
  '"',
  ';',
  '\0',
  ':',
];

function mutate(form: Buffer, random: (below: number) => number): Buffer {
  let bytes = Buffer.from(form);
  for (let count = 1 + random(4); count > 0; count -= 1) {
    const at = random(bytes.length);
    const piece = Buffer.from(PIECES[random(PIECES.length)] ?? '');
    const cut = [0, 1, random(20)][random(3)] ?? 0;
    bytes = Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at + cut)]);
  }
  return bytes;
}

describe('a damaged form', () => {
  const form = Buffer.from(
    part('name="group"', 'g') +
      part('name="f"; filename="a"', 'one', 'Content-Type: text/plain\r\n') +
      part('name="f"; filename="b"', 'x'.repeat(40_000)) +
      FORM_END,
  );

  test('is always answered, and stored whole or not at all', async () => {
    const { port, store, serverErrors } = await running();
    const statuses = new Set<number>();
    for (let seed = 1; seed <= 600; seed += 1) {
      store.files.clear();
      const body = mutate(form, randomFrom(seed));
      const split = randomFrom(seed + 1)(body.length);
      const { status } = await raw(
        port,
        formHead(body.length),
        body.subarray(0, split),
        body.subarray(split),
      );
      statuses.add(status);
      expect([201, 400], `seed ${seed}`).toContain(status);
      expect(store.files.size > 0, `seed ${seed}`).toBe(status === 201);
      expect(store.uploadsInFlight, `seed ${seed}`).toBe(0);
    }
    expect(statuses.size).toBe(2);
    expect(serverErrors).toEqual([]);
  });
});
