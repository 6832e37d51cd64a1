import { dirname, resolve } from 'node:path';
import type { FileStat } from '@stevedore/disk';
import { Status } from '@stevedore/protocol';
import { codeOf, StatusError } from '@stevedore/wire';
import { asNotFound } from '../refusals.js';
import type { FileBackend, ReadableFile } from './file-backend.js';

/**
 * Files open for reading; readers of the same file share its descriptor. An idle file stays
 * open for the next reader, up to `maxIdleFiles` of them. Whenever the system runs out of
 * descriptors, half of the idle files are closed, and those left become the new limit. At
 * most as many files are in use as there are connections. The result of `stat` is kept, so
 * every change of a file must call `forget`. Links are resolved at every opening, as their
 * target may be gone.
 */

export interface OpenFile {
  readonly file: ReadableFile;
  readonly stat: FileStat;
  /** True if the name is a link to the open file. */
  readonly isLinked: boolean;
  /** Ends this use; call it exactly once. */
  release(): void;
}

interface Entry {
  readonly path: string;
  readonly opened: Promise<{ readonly file: ReadableFile; readonly stat: FileStat }>;
  users: number;
  /** False once it is forgotten: the last user closes it. */
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

  /** Number of open files without users. */
  get idle(): number {
    return this.#idle.size;
  }

  /** Opens a stored file; status 2 if there is none, status 21 if it is not a regular file. */
  async acquire(path: string): Promise<OpenFile> {
    const entry = this.#entries.get(path) ?? this.#open(path);
    entry.users += 1;
    this.#idle.delete(entry);
    try {
      const { file, stat } = await entry.opened;
      // Idle content would fill memory, and opening it again costs little.
      if (file.bytes) this.#unlist(entry);
      return { file, stat, isLinked: false, release: () => this.#release(entry) };
    } catch (error) {
      entry.users -= 1;
      this.#unlist(entry);
      if (codeOf(error) === 'ELOOP') return this.#follow(path);
      throw asNotFound(error, path);
    }
  }

  /** Opens the file that a link points to, with the link's modification time. */
  async #follow(path: string): Promise<OpenFile> {
    try {
      const { target, mtimeSeconds } = await this.#backend.readLink(path);
      const opened = await this.acquire(resolve(dirname(path), target));
      return { ...opened, isLinked: true, stat: { ...opened.stat, mtimeSeconds } };
    } catch (error) {
      throw asNotFound(error, path);
    }
  }

  /**
   * Call it when a file was created, removed or changed, before that is answered, so that
   * later readers see its new state.
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

  /** Closes the least recently used idle files down to the limit. */
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
