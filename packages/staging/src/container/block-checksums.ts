import assert from 'node:assert';
import { crc32 } from 'node:zlib';

/**
 * CRC-32s of a large file's blocks, so that a part of it can be checked without reading all of it.
 * They are packed as 4 bytes each, little-endian, in order; the last block may be shorter. The
 * file's own CRC-32 follows from them, so the list of another file is detected.
 */

export const BLOCK_BYTES = 256 * 1024;
const CRC_BYTES = 4;

export function blockCrc(list: Buffer, block: number): number {
  return list.readUInt32LE(block * CRC_BYTES);
}

/** True if the list is that of a file with this size and CRC-32. */
export function isBlockListOf(
  list: Buffer,
  file: { readonly size: number; readonly crc32: number },
): boolean {
  const listBytes = Math.ceil(file.size / BLOCK_BYTES) * CRC_BYTES;
  return list.length === listBytes && crcOfList(list, file.size) === file.crc32;
}

/** Consumes the bytes of a file in order, in pieces of any length. */
export class BlockChecksums {
  #list = Buffer.alloc(64 * CRC_BYTES);
  #blocks = 0;
  #crc = 0;
  #inBlock = 0;

  add(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      const part = chunk.subarray(at, at + BLOCK_BYTES - this.#inBlock);
      this.#crc = crc32(part, this.#crc);
      this.#inBlock += part.length;
      at += part.length;
      if (this.#inBlock === BLOCK_BYTES) this.#endBlock();
    }
  }

  /** The list for the bytes so far. */
  list(): Buffer {
    const whole = this.#list.subarray(0, this.#blocks * CRC_BYTES);
    if (this.#inBlock === 0) return Buffer.from(whole);
    const last = Buffer.alloc(CRC_BYTES);
    last.writeUInt32LE(this.#crc);
    return Buffer.concat([whole, last]);
  }

  /** CRC-32 of the bytes so far. */
  get crc32(): number {
    return crcOfList(this.list(), this.#blocks * BLOCK_BYTES + this.#inBlock);
  }

  #endBlock(): void {
    if ((this.#blocks + 1) * CRC_BYTES > this.#list.length) {
      this.#list = Buffer.concat([this.#list], this.#list.length * 2);
    }
    this.#list.writeUInt32LE(this.#crc, this.#blocks * CRC_BYTES);
    this.#blocks += 1;
    this.#crc = 0;
    this.#inBlock = 0;
  }
}

function crcOfList(list: Buffer, fileBytes: number): number {
  let crc = 0;
  for (let at = 0; at < list.length; at += CRC_BYTES) {
    const bytes = Math.min(BLOCK_BYTES, fileBytes - (at / CRC_BYTES) * BLOCK_BYTES);
    crc = combineCrcs(crc, list.readUInt32LE(at), bytes);
  }
  return crc;
}

/** The CRC-32 of bytes with this CRC-32, followed by so many others with that one. */
export function combineCrcs(first: number, second: number, secondBytes: number): number {
  assert(Number.isSafeInteger(secondBytes) && secondBytes >= 0);
  let shifted = first;
  for (let left = secondBytes, bit = 0; left > 0; left = Math.floor(left / 2), bit += 1) {
    if (left % 2 === 1) shifted = multiply(SHIFTS[bit]!, shifted);
  }
  return (shifted ^ second) >>> 0;
}

/*
 * A CRC-32 is the remainder of a polynomial over GF(2). That of A followed by B is the
 * one of A times x to the number of B's bits, plus the one of B. Bit 31 stands for x^0.
 */
const POLYNOMIAL = 0xedb88320;
const ONE = 0x80000000;

function multiply(a: number, b: number): number {
  let product = 0;
  let factor = b;
  for (let bit = ONE; bit !== 0; bit >>>= 1) {
    if (a & bit) product ^= factor;
    factor = factor & 1 ? (factor >>> 1) ^ POLYNOMIAL : factor >>> 1;
  }
  return product;
}

/** x to the number of bits of 1, 2, 4, ... bytes; no file is longer than 2 ** 53 bytes. */
const SHIFTS: number[] = [ONE >>> 8];
for (let shift = SHIFTS[0]!; SHIFTS.length < 53; SHIFTS.push(shift)) shift = multiply(shift, shift);
