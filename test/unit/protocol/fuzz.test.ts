import {
  decodeHeader,
  HEADER_BYTES,
  ProtocolError,
  parseFileName,
  parseSliceId,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { commandOf } from '../../support/commands.js';
import { Random } from '../../support/random.js';
import { fileIdVectors, frameVectors } from '../../support/vectors.js';

const FRAMES = 20_000;
const IDS = 20_000;
const SEED = 0x5eed;

function mutate(bytes: Buffer, random: Random): Buffer {
  const copy = Buffer.from(bytes);
  for (let change = random.below(3); change >= 0; change--) {
    const at = random.below(Math.max(1, copy.length));
    switch (random.below(5)) {
      case 0:
        return copy.subarray(0, at);
      case 1:
        return Buffer.concat([copy, Buffer.alloc(1 + random.below(80), random.below(256))]);
      case 2:
        copy.fill(random.pick([0x00, 0x7f, 0x80, 0xff]), at, Math.min(copy.length, at + 8));
        break;
      case 3:
        copy.fill(0, at, Math.min(copy.length, at + 1 + random.below(20)));
        break;
      default:
        if (copy.length > 0) copy[at] = random.below(256);
    }
  }
  return copy;
}

function outcome(run: () => unknown): 'value' | 'refused' {
  try {
    run();
    return 'value';
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    return 'refused';
  }
}

describe('damaged bytes', () => {
  it(`in ${FRAMES} frames (seed ${SEED}) cause a ProtocolError or a value, nothing else`, () => {
    const random = new Random(SEED);
    const frames = ['tracker', 'storage', 'storage-to-tracker'].flatMap((file) =>
      frameVectors(file as 'tracker').flatMap((vector) => [
        { command: commandOf(vector.cmd), side: 'request' as const, hex: vector.request_hex },
        ...(vector.response_hex === null
          ? []
          : [{ command: commandOf(vector.cmd), side: 'reply' as const, hex: vector.response_hex }]),
      ]),
    );
    const counts = { value: 0, refused: 0 };
    for (let round = 0; round < FRAMES; round++) {
      const { command, side, hex } = random.pick(frames);
      const bytes = mutate(Buffer.from(hex, 'hex'), random);
      const result = outcome(() => {
        decodeHeader(bytes);
        return command[side].decode(bytes.subarray(HEADER_BYTES));
      });
      counts[result]++;
    }
    expect(counts.value).toBeGreaterThan(FRAMES / 20);
    expect(counts.refused).toBeGreaterThan(FRAMES / 20);
  });

  it(`in ${IDS} ids (seed ${SEED}) cause a value or none, nothing else`, () => {
    const random = new Random(SEED);
    const ids = fileIdVectors().map((vector) => Buffer.from(vector.decoded.remote_filename));
    let parsed = 0;
    for (let round = 0; round < IDS; round++) {
      const id = parseFileName('group1', mutate(random.pick(ids), random).toString('latin1'));
      if (id) {
        parsed++;
        parseSliceId(id);
      }
    }
    expect(parsed).toBeGreaterThan(0);
  });
});
