import { constants, type FileHandle, open } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { invalidOption } from '../options.js';
import type { PutFileOptions, Receipt, Store } from '../store/types.js';
import { interrupted } from './body.js';

/** `Store.putFile`, for any store. */
export async function putFile(
  store: Store,
  path: string | URL,
  options: PutFileOptions = {},
): Promise<Receipt> {
  const file = await opened(path);
  try {
    const about = await file.stat();
    if (!about.isFile()) throw invalidOption(`path: ${path} is not a regular file`);
    const base = basename(typeof path === 'string' ? path : fileURLToPath(path));
    const { name = base } = options;
    const body = file.createReadStream({ autoClose: false });
    return await store.put(body, { ...options, name, size: about.size });
  } finally {
    await file.close();
  }
}

/** Does not wait for the writer of a pipe. */
async function opened(path: string | URL): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall) throw interrupted(error);
    throw invalidOption(`path: ${(error as Error).message}`);
  }
}
