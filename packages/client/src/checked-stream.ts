import { crc32 } from 'node:zlib';
import { StoreError } from '@stevedore/staging';

/** Hands the chunks on and fails at the end if they were not the file's. */
export async function* checkedChunks(
  chunks: AsyncIterable<Buffer>,
  expected: {
    readonly size: number;
    readonly crc32: number;
    readonly name: string;
  },
): AsyncGenerator<Buffer> {
  let value = 0;
  let size = 0;
  for await (const chunk of chunks) {
    value = crc32(chunk, value);
    size += chunk.length;
    // The last chunk is held back until the sum is known to be right.
    if (size >= expected.size) checkSum(expected, size, value);
    yield chunk;
  }
  checkSum(expected, size, value);
}

function checkSum(
  expected: {
    readonly size: number;
    readonly crc32: number;
    readonly name: string;
  },
  size: number,
  value: number,
): void {
  if (size === expected.size && value === expected.crc32) return;
  throw corrupt(expected.name);
}

export function corrupt(name: string): StoreError {
  return new StoreError('corrupt', `the bytes of ${name} are not those that were stored`);
}
