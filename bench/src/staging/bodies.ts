/** Small bodies and keys that are known by their number, so that none need be kept. */

/** No two are equal; `index` stands at the beginning. */
export function bodyOf(index: number, bytes: number): Buffer {
  const body = Buffer.alloc(bytes, index & 0xff);
  body.writeUInt32LE(index, 0);
  return body;
}

/** Keys of generated rows: in order of time, with bits that look random. */
export function generatedKey(row: number): Buffer {
  const key = Buffer.allocUnsafe(16);
  key.writeUIntBE(FIRST_KEY_MS + row, 0, 6);
  key.writeUInt16BE(GENERATED_ORIGIN, 6);
  key.writeUInt32BE(mix(row), 8);
  key.writeUInt32BE(mix(row ^ 0x5bd1e995), 12);
  return key;
}

const FIRST_KEY_MS = 1_700_000_000_000;
const GENERATED_ORIGIN = 7;

function mix(value: number): number {
  let hash = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
