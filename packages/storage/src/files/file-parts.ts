import type { DirectoryRotation } from '../state-file.js';
import type { StorageSettings } from '../storage-options.js';
import type { FileBackend } from './file-backend.js';
import type { OpenFiles } from './open-files.js';
import type { FileLocks, StorePaths } from './store-paths.js';

/** What all that reads and changes stored files works with. */
export interface FileParts {
  readonly settings: StorageSettings;
  readonly backend: FileBackend;
  readonly storePaths: StorePaths;
  readonly rotation: DirectoryRotation;
  /** Files that are open for reading. */
  readonly files: OpenFiles;
  /** By path: a file is changed, deleted, renamed and described under its lock. */
  readonly locks: FileLocks;
}
