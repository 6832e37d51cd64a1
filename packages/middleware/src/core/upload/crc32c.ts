/**
 * CRC-32C (Castagnoli), which Node does not have: eight bytes at a time by eight tables
 * of 1 KiB, made at the first use.
 */

const POLYNOMIAL = 0x82f6_3b78;
const SLICES = 8;

let tables: Int32Array | undefined;

/** The checksum of `bytes` behind those whose checksum is `before`. */
export function crc32c(bytes: Uint8Array, before = 0): number {
  tables ??= makeTables();
  const table = tables;
  let crc = ~before;
  let at = 0;
  for (const end = bytes.length - SLICES; at <= end; at += SLICES) {
    crc ^= bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    crc =
      table[0x700 + (crc & 0xff)]! ^
      table[0x600 + ((crc >>> 8) & 0xff)]! ^
      table[0x500 + ((crc >>> 16) & 0xff)]! ^
      table[0x400 + (crc >>> 24)]! ^
      table[0x300 + bytes[at + 4]!]! ^
      table[0x200 + bytes[at + 5]!]! ^
      table[0x100 + bytes[at + 6]!]! ^
      table[bytes[at + 7]!]!;
  }
  for (; at < bytes.length; at++) crc = (crc >>> 8) ^ table[(crc ^ bytes[at]!) & 0xff]!;
  return ~crc >>> 0;
}

/** Table `n` is that of a byte which `n` others follow. */
function makeTables(): Int32Array {
  const made = new Int32Array(SLICES * 256);
  for (let byte = 0; byte < 256; byte++) {
    let value = byte;
    for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? POLYNOMIAL : 0);
    made[byte] = value;
  }
  for (let index = 256; index < made.length; index++) {
    const before = made[index - 256]!;
    made[index] = (before >>> 8) ^ made[before & 0xff]!;
  }
  return made;
}
