import { mkdir, open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { drive } from '../harness/load.js';
import { serve } from '../harness/serve.js';

/** Files that are written durably by a loop, in a process of its own. */

export interface PlainFiles {
  readonly directory: string;
  readonly files: number;
  readonly fileBytes: number;
  readonly concurrency: number;
}

const handlers = {
  /** Files a second. */
  async write({ directory, files, fileBytes, concurrency }: PlainFiles): Promise<number> {
    await mkdir(directory, { recursive: true });
    await using folder = await open(directory, 'r');
    const body = Buffer.alloc(fileBytes, 'r');
    const { seconds } = await drive({ operations: files, concurrency }, async (index) => {
      const path = join(directory, String(index));
      {
        await using file = await open(`${path}.new`, 'wx');
        await file.write(body);
        await file.sync();
      }
      await rename(`${path}.new`, path);
      await folder.sync();
    });
    return files / seconds;
  },
};

export type PlainHandlers = typeof handlers;

serve(handlers);
