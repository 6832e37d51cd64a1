import { join } from 'node:path';

/** Folders of this repository, wherever the file that asks for them is. */

export const ROOT = join(import.meta.dirname, '../..');
export const TEST = join(ROOT, 'test');
/** Compiled tests: what runs as a thread or a process of its own. */
export const COMPILED = join(TEST, 'dist');
