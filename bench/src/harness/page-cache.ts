import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/**
 * Writes what is dirty and empties the system's page cache. The result is false where that is not
 * allowed: it needs Linux and root.
 */
export async function dropPageCache(): Promise<boolean> {
  try {
    await promisify(execFile)('sync');
    await writeFile('/proc/sys/vm/drop_caches', '3');
    return true;
  } catch {
    return false;
  }
}
