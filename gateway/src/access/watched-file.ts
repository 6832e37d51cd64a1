import { open, readFile, rm, stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '@stevedore/client';
import { invalidOption } from '@stevedore/client/internal';
import { givenJson } from '@stevedore/options';
import { placeOf, writeTo } from '../written-file.js';

/**
 * A file of settings that people, commands and gateways change, while gateways run. It is always
 * replaced as a whole: the new content is synced under another name and then renamed, so that
 * nobody reads half of it. Only its owner may read it.
 */

export function replaceFile(path: string, text: string): Promise<void> {
  return writeTo(path, Readable.from([Buffer.from(text)]), { mode: 0o600, isSynced: true });
}

const LOCK_STALE_MS = 10_000;
const LOCK_PAUSE_MS = 20;
const LOCK_LIMIT_MS = 15_000;

/**
 * Writes the text that `change` resolves with, under a lock, so that no change by this process or
 * another is lost. The lock of a process that died is taken over.
 */
export async function changeFile(path: string, change: () => Promise<string>): Promise<void> {
  const lock = `${await placeOf(path)}.lock`;
  await takeLock(lock);
  try {
    await replaceFile(path, await change());
  } finally {
    await rm(lock, { force: true });
  }
}

async function takeLock(lock: string): Promise<void> {
  const end = performance.now() + LOCK_LIMIT_MS;
  for (;;) {
    try {
      return await (await open(lock, 'wx', 0o600)).close();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const { mtimeMs } = await stat(lock).catch(() => ({ mtimeMs: Date.now() }));
    // The clock may have been set back since.
    if (Math.abs(Date.now() - mtimeMs) > LOCK_STALE_MS) await rm(lock, { force: true });
    else if (performance.now() < end) await sleep(LOCK_PAUSE_MS);
    else throw new StoreError('directory_locked', `${lock} is held by another program`);
  }
}

/** Throws `invalid_option`. */
export function readJson(text: string, path: string): unknown {
  try {
    return givenJson(text);
  } catch (error) {
    throw invalidOption(`${path}: ${(error as Error).message}`);
  }
}

const LOOK_INTERVAL_MS = 1000;

export interface WatchedFileOptions<T> {
  readonly path: string;
  /** Throws `invalid_option`. */
  readonly parse: (text: string, path: string) => T;
  readonly onError: (error: unknown) => void;
}

/**
 * What a file says, read again when it changes: settings change without a restart. If it cannot be
 * read or is malformed, what it said stays in force and the error is reported once.
 */
export class WatchedFile<T> {
  readonly #options: WatchedFileOptions<T>;
  #timer: NodeJS.Timeout | undefined;
  #fileVersion: string;
  #looking: Promise<void> | undefined;
  #troubled = false;
  content: T;
  /** Number of times that the content changed. */
  version = 1;

  private constructor(options: WatchedFileOptions<T>, content: T, fileVersion: string) {
    this.#options = options;
    this.content = content;
    this.#fileVersion = fileVersion;
  }

  /** Rejects with the system's error, or that of `parse`. */
  static async open<T>(options: WatchedFileOptions<T>): Promise<WatchedFile<T>> {
    const { path, parse } = options;
    const version = await versionOf(path);
    const file = new WatchedFile(options, parse(await readFile(path, 'utf8'), path), version);
    file.#timer = setInterval(() => void file.#look(), LOOK_INTERVAL_MS).unref();
    return file;
  }

  get path(): string {
    return this.#options.path;
  }

  /** Changes the file, and takes the change at once. Rejects with the system's error. */
  async change(change: (content: T) => string): Promise<void> {
    const { path, parse } = this.#options;
    await changeFile(path, async () => {
      const text = change(parse(await readFile(path, 'utf8'), path));
      // What could not be read again is not written.
      parse(text, path);
      return text;
    });
    // A look that began before may have seen the file as it was.
    await this.#looking;
    await this.#look();
  }

  #look(): Promise<void> {
    this.#looking ??= this.#readAgain().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #readAgain(): Promise<void> {
    const { path, parse, onError } = this.#options;
    try {
      const version = await versionOf(path);
      if (version === this.#fileVersion) return;
      this.content = parse(await readFile(path, 'utf8'), path);
      this.#fileVersion = version;
      this.version += 1;
      this.#troubled = false;
    } catch (error) {
      if (!this.#troubled) onError(error);
      this.#troubled = true;
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

/** Changes with the file, its content or its time. */
async function versionOf(path: string): Promise<string> {
  const { ino, size, mtimeNs } = await stat(path, { bigint: true });
  return `${ino}-${size}-${mtimeNs}`;
}
