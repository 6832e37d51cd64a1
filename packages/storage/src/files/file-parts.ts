import type { DirectoryRotation } from '../state-file.js';
import type { StorageSettings } from '../storage-options.js';
import type { FileBackend } from './file-backend.js';
import type { OpenFiles } from './open-files.js';
import type { FileLocks, StorePaths } from './store-paths.js';

/** What code that reads and changes stored files shares. */
export interface FileParts {
  readonly settings: StorageSettings;
  readonly backend: FileBackend;
  readonly storePaths: StorePaths;
  readonly rotation: DirectoryRotation;
  /** Files that are open for reading. */
  readonly files: OpenFiles;
  /** By path: changing, deleting or renaming a file or its metadata takes its lock. */
  readonly locks: FileLocks;
}
