/**
 * Memory that V8 does not count: it marks its whole heap each time that other ArrayBuffers have grown
 * by 64 MiB. No other thread has it.
 *
 * TypedArray.set and Buffer.from copy into and out of such memory one byte at a time where the two
 * sides are not aligned alike, as bodies and records hardly are: five times slower than `fill`.
 */

export function sharedMemory(bytes: number): Buffer {
  return Buffer.from(new SharedArrayBuffer(bytes));
}

/** Copies the bytes into the memory, from `at` on. */
export function copyInto(memory: Buffer, at: number, bytes: Uint8Array): void {
  if (bytes.length > 0) memory.fill(bytes, at, at + bytes.length);
}

/** A copy that is not in such memory. */
export function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafe(bytes.length);
  copyInto(copy, 0, bytes);
  return copy;
}
