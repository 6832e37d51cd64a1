import type { FileHandle } from 'node:fs/promises';

/** The bytes of an open file from its start to its end, in chunks of their own. */

const CHUNK_BYTES = 256 * 1024;

export async function* readFrom(handle: FileHandle): AsyncGenerator<Uint8Array> {
  let position = 0;
  for (;;) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}
