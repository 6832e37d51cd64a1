import { mkdir, open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { drive, type Load } from '../harness/load.js';

/** Files that are written durably by a loop, in a process of its own: files a second. */
export async function write(directory: string, load: Load, fileBytes: number): Promise<number> {
  await mkdir(directory, { recursive: true });
  await using folder = await open(directory, 'r');
  const body = Buffer.alloc(fileBytes, 'r');
  const { operations, seconds } = await drive(load, async (index) => {
    const path = join(directory, String(index));
    {
      await using file = await open(`${path}.new`, 'wx');
      await file.write(body);
      await file.sync();
    }
    await rename(`${path}.new`, path);
    await folder.sync();
  });
  return operations / seconds;
}
