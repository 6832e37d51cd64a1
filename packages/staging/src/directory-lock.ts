import { existsSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { deferred } from '@stevedore/async';
import { openDatabase, SqliteBindingError, type SqliteDatabase } from '@stevedore/disk/sqlite';
import { StoreError } from './errors.js';
import { isLocked } from './filemap/locks.js';

/**
 * Ensures that one process owns a directory. The lock is SQLite's exclusive lock on the file
 * `lock`: the operating system releases it however the process dies, so there is nothing to clean
 * up.
 *
 * Somebody may remove the file although its owner lives. The owner makes and locks it again within
 * LOOK_MS, and a process that finds a used directory without the file waits for longer than that.
 * This needs nothing but the directory itself, so it also holds between containers and on network
 * file systems.
 */
const LOOK_MS = 500;
const OWNER_WAIT_MS = 2_000;
const WAIT_STEP_MS = 50;

export class DirectoryLock {
  /** Those that this process has. */
  static readonly #held = new Set<DirectoryLock>();
  readonly #directory: string;
  /** The last one has the file that is there; the others had files that were removed. */
  readonly #databases: SqliteDatabase[] = [];
  #inode: number | undefined;
  readonly #timer: NodeJS.Timeout;
  /** Resolves if another process took the directory while this one stood still. */
  readonly lost: Promise<StoreError>;

  private constructor(directory: string) {
    this.#directory = directory;
    this.#take();
    const { promise, resolve } = deferred<StoreError>();
    this.lost = promise;
    this.#timer = setInterval(() => this.#look(resolve), LOOK_MS).unref();
  }

  /**
   * Throws StoreError `directory_locked` while another process (or store) has it,
   * SqliteBindingError if the installation is for another version of Node.
   */
  static acquire(directory: string): DirectoryLock {
    try {
      const lock = new DirectoryLock(directory);
      DirectoryLock.#held.add(lock);
      return lock;
    } catch (error) {
      if (error instanceof SqliteBindingError) throw error;
      if (isLocked(error)) throw DirectoryLock.#inUse(directory);
      throw new StoreError(
        'directory_unusable',
        `${directory} cannot be written: ${(error as Error).message}; check that it is a directory this user can write to`,
        { cause: error },
      );
    }
  }

  static #inUse(directory: string): StoreError {
    const inode = inodeOf(directory);
    const isOurs = [...DirectoryLock.#held].some((lock) => lock.#inode === inode);
    const message = isOurs
      ? `${directory} is open in this process already; share that store, or close it before it is opened again`
      : `${directory} is in use by another process, and only one can use a directory; stop it, name another directory, or connect() to a gateway`;
    return new StoreError('directory_locked', message);
  }

  /** Call before `acquire` where `content` exists in a directory that was used before. */
  static async awaitOwner(directory: string, content: string): Promise<void> {
    if (!existsSync(`${directory}/${content}`)) return;
    for (let waitedMs = 0; waitedMs < OWNER_WAIT_MS; waitedMs += WAIT_STEP_MS) {
      if (existsSync(fileIn(directory))) return;
      await sleep(WAIT_STEP_MS);
    }
  }

  release(): void {
    clearInterval(this.#timer);
    DirectoryLock.#held.delete(this);
    for (const database of this.#databases) database.close();
  }

  #take(): void {
    const database = openDatabase(fileIn(this.#directory), { timeout: 0 });
    try {
      database.exec('BEGIN EXCLUSIVE');
      this.#inode = inodeOf(this.#directory);
    } catch (error) {
      database.close();
      throw error;
    }
    this.#databases.push(database);
  }

  #look(onLost: (error: StoreError) => void): void {
    try {
      if (inodeOf(this.#directory) !== this.#inode) this.#take();
    } catch (error) {
      // Otherwise the directory is gone, or fails: nobody can take it then.
      if (!isLocked(error)) return;
      clearInterval(this.#timer);
      const message = `another process has taken ${this.#directory} after its lock was removed; this one writes nothing any more`;
      onLost(new StoreError('directory_locked', message, { cause: error }));
    }
  }
}

function fileIn(directory: string): string {
  return `${directory}/lock`;
}

function inodeOf(directory: string): number | undefined {
  return statSync(fileIn(directory), { throwIfNoEntry: false })?.ino;
}
