import { openDatabase, SqliteBindingError, type SqliteDatabase } from '@stevedore/disk/sqlite';
import { StoreError } from './errors.js';

/**
 * Ensures that one process owns a directory. The lock is SQLite's exclusive lock on the file
 * `lock`: the operating system releases it however the process dies, so there is nothing to clean
 * up.
 */
export class DirectoryLock {
  readonly #database: SqliteDatabase;

  private constructor(database: SqliteDatabase) {
    this.#database = database;
  }

  /**
   * Throws StoreError `directory_locked` while another process (or store) has it,
   * SqliteBindingError if the installation is for another version of Node.
   */
  static acquire(directory: string): DirectoryLock {
    let database: SqliteDatabase | undefined;
    try {
      database = openDatabase(`${directory}/lock`, { timeout: 0 });
      database.exec('BEGIN EXCLUSIVE');
      return new DirectoryLock(database);
    } catch (error) {
      database?.close();
      if (error instanceof SqliteBindingError) throw error;
      if (isBusy(error)) {
        throw new StoreError(
          'directory_locked',
          `${directory} is in use by another process; stop it, or name another directory`,
        );
      }
      throw new StoreError(
        'directory_unusable',
        `${directory} cannot be written: ${(error as Error).message}; check that it is a directory this user can write to`,
        { cause: error },
      );
    }
  }

  release(): void {
    this.#database.close();
  }
}

function isBusy(error: unknown): boolean {
  const code = (error as { code?: unknown }).code;
  return (
    typeof code === 'string' && (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED'))
  );
}
