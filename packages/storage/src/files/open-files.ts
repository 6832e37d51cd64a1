import { dirname, resolve } from 'node:path';
import type { FileStat } from '@stevedore/disk';
import { Status } from '@stevedore/protocol';
import { codeOf, StatusError } from '@stevedore/wire';
import type { FileBackend, ReadableFile } from './file-backend.js';

/**
 * Files open for reading, shared by all who read the same one. A file that
 * is not being read stays open for the next reader; of those there are at most
 * `maxIdleFiles`, and half as many for good whenever the system has no more
 * descriptors. Files in use are as many as there are connections at most.
 * What `stat` said once is taken as true: every change of a file forgets it here.
 * Links lead to files that never change; they are looked up at every opening, as
 * what they lead to may have gone.
 */

export interface OpenFile {
  readonly file: ReadableFile;
  readonly stat: FileStat;
  /** True if its name is a link to the file that is open. */
  readonly isLinked: boolean;
  /** Ends this use; call it exactly once. */
  release(): void;
}

interface Entry {
  readonly path: string;
  readonly opened: Promise<{ readonly file: ReadableFile; readonly stat: FileStat }>;
  users: number;
  /** False once its name is gone: the last user closes it. */
  listed: boolean;
}

export class OpenFiles {
  readonly #backend: FileBackend;
  #maxIdleFiles: number;
  readonly #onError: (error: Error) => void;
  readonly #onForget: (path: string) => void;
  readonly #entries = new Map<string, Entry>();
  /** Entries without users, least recently used first. */
  readonly #idle = new Set<Entry>();

  constructor(
    backend: FileBackend,
    maxIdleFiles: number,
    onError: (error: Error) => void,
    onForget: (path: string) => void = () => {},
  ) {
    this.#backend = backend;
    this.#onForget = onForget;
    this.#maxIdleFiles = maxIdleFiles;
    this.#onError = onError;
  }

  /** Files that are open without being read. */
  get idle(): number {
    return this.#idle.size;
  }

  /** Opens a stored file; status 2 if there is none, status 21 if it is no file. */
  async acquire(path: string): Promise<OpenFile> {
    const entry = this.#entries.get(path) ?? this.#open(path);
    entry.users += 1;
    this.#idle.delete(entry);
    try {
      const { file, stat } = await entry.opened;
      return { file, stat, isLinked: false, release: () => this.#release(entry) };
    } catch (error) {
      entry.users -= 1;
      this.#unlist(entry);
      if (codeOf(error) === 'ELOOP') return this.#follow(path);
      throw foreseen(error, path);
    }
  }

  /** The file that a link leads to, with the time of the link. */
  async #follow(path: string): Promise<OpenFile> {
    try {
      const { target, mtimeSeconds } = await this.#backend.readLink(path);
      const opened = await this.acquire(resolve(dirname(path), target));
      return { ...opened, isLinked: true, stat: { ...opened.stat, mtimeSeconds } };
    } catch (error) {
      throw foreseen(error, path);
    }
  }

  /**
   * Forgets the file: its name is new, or gone, or its bytes have changed. To be called
   * before that is answered: later readers see it as it is.
   */
  forget(path: string): void {
    this.#onForget(path);
    const entry = this.#entries.get(path);
    if (!entry) return;
    this.#unlist(entry);
    if (entry.users === 0) void this.#close(entry);
  }

  close(): void {
    for (const path of [...this.#entries.keys()]) this.forget(path);
  }

  #open(path: string): Entry {
    const entry: Entry = { path, opened: this.#openAndStat(path), users: 0, listed: true };
    this.#entries.set(path, entry);
    return entry;
  }

  async #openAndStat(path: string): Promise<{ file: ReadableFile; stat: FileStat }> {
    const file = await this.#openToRead(path);
    try {
      const stat = await file.stat();
      if (!stat.isFile) throw new StatusError(Status.isDirectory, `${path} is not a file`);
      return { file, stat };
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  async #openToRead(path: string): Promise<ReadableFile> {
    try {
      return await this.#backend.openToRead(path);
    } catch (error) {
      if (!isOutOfDescriptors(error) || this.#idle.size === 0) throw error;
      this.#maxIdleFiles = Math.min(this.#maxIdleFiles, this.#idle.size >> 1);
      await Promise.all(this.#closeIdle());
      return this.#backend.openToRead(path);
    }
  }

  #release(entry: Entry): void {
    entry.users -= 1;
    if (entry.users > 0) return;
    if (!entry.listed) {
      void this.#close(entry);
      return;
    }
    this.#idle.add(entry);
    this.#closeIdle();
  }

  /** Closes what has not been used for longest, down to as many as may be kept. */
  #closeIdle(): Promise<void>[] {
    const closed: Promise<void>[] = [];
    for (const oldest of this.#idle) {
      if (this.#idle.size <= this.#maxIdleFiles) break;
      this.#unlist(oldest);
      closed.push(this.#close(oldest));
    }
    return closed;
  }

  #unlist(entry: Entry): void {
    if (this.#entries.get(entry.path) === entry) this.#entries.delete(entry.path);
    this.#idle.delete(entry);
    entry.listed = false;
  }

  /** Never rejects. */
  #close(entry: Entry): Promise<void> {
    return entry.opened.then(({ file }) => file.close()).catch(this.#onError);
  }
}

function isOutOfDescriptors(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'EMFILE' || code === 'ENFILE';
}

/** A missing file is an answer; everything else is trouble. */
export function foreseen(error: unknown, path: string): unknown {
  const missing = codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR';
  return missing ? new StatusError(Status.notFound, path) : error;
}
