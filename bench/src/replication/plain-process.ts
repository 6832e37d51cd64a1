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

export type PlainHandlers = {
  /** Files a second. */
  readonly write: (files: PlainFiles) => Promise<number>;
};

async function write({ directory, files, fileBytes, concurrency }: PlainFiles): Promise<number> {
  await mkdir(directory, { recursive: true });
  const folder = await open(directory, 'r');
  const body = Buffer.alloc(fileBytes, 'r');
  try {
    const { seconds } = await drive({ operations: files, concurrency }, async (index) => {
      const path = join(directory, String(index));
      const file = await open(`${path}.new`, 'wx');
      try {
        await file.write(body);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(`${path}.new`, path);
      await folder.sync();
    });
    return files / seconds;
  } finally {
    await folder.close();
  }
}

serve({ write } satisfies PlainHandlers, async () => {});
