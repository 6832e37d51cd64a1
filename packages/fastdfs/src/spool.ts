import { randomUUID } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { BodySource, type PreparedBody, SourceCursor } from '@stevedore/wire';
import type { Deadline } from './deadline.js';
import { readFrom } from './file-chunks.js';
import type { Settings } from './options.js';

/**
 * Keeps a body of unknown length until its length is known, because every upload
 * begins with it: in memory while it is small, then in a file without a name that
 * the system frees even after a crash.
 *
 * The other way would be an appender file that is renamed to a normal one at the
 * end. It needs no disk here, but storages before 6.02 cannot do it, a failure
 * leaves a part of the file behind, and what was sent cannot be sent again to
 * another storage. A spool works with every storage and can be repeated.
 */

const MEMORY_BYTES = 256 * 1024;

export async function spool(
  source: AsyncIterable<Uint8Array>,
  settings: Pick<Settings, 'maxSpoolBytes' | 'spoolDirectory'>,
  deadline: Deadline,
): Promise<PreparedBody> {
  const cursor = new SourceCursor(source);
  let held: Uint8Array[] = [];
  let handle: FileHandle | undefined;
  let size = 0;
  let inMemory = 0;
  const release = async (): Promise<void> => handle?.close();
  try {
    for (;;) {
      deadline.watch(cursor.interrupt);
      const chunk = await cursor.next(deadline);
      deadline.throwIfEnded();
      deadline.unwatch();
      if (chunk === undefined) break;
      size += chunk.length;
      if (size > settings.maxSpoolBytes) {
        throw deadline.error('too_large', `more than ${settings.maxSpoolBytes} bytes`);
      }
      held.push(chunk);
      inMemory += chunk.length;
      if (inMemory <= MEMORY_BYTES) continue;
      handle ??= await openNameless(settings.spoolDirectory);
      await handle.appendFile(held.length === 1 ? held[0]! : Buffer.concat(held));
      held = [];
      inMemory = 0;
      deadline.allowBytes(size);
    }
    if (!handle) return { size, payload: Buffer.concat(held), release };
    await handle.appendFile(Buffer.concat(held));
    const file = handle;
    return { size, payload: new BodySource(() => readFrom(file), size, true), release };
  } catch (error) {
    deadline.unwatch();
    await release();
    throw error;
  } finally {
    cursor.stop();
  }
}

async function openNameless(directory: string): Promise<FileHandle> {
  const path = join(directory, `stevedore-${randomUUID()}.spool`);
  const handle = await open(path, 'wx+', 0o600);
  try {
    await unlink(path);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}
