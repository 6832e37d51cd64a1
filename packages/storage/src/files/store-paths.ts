import { dirname, join, sep } from 'node:path';
import { types } from 'node:util';
import { KeyedLock } from '@stevedore/async';
import type { Disk, DiskSpace } from '@stevedore/disk';
import { ANY_STORE_PATH, type FileId, hexByte, messageOf, Status } from '@stevedore/protocol';
import { codeOf, type Environment, StartError, StatusError } from '@stevedore/wire';
import { dataDirectory, temporaryDirectory } from '../layout.js';
import { invalid } from '../refusals.js';
import type { DirectoryRotation } from '../state-file.js';
import type { StorageSettings } from '../storage-options.js';
import { ChangeJournal } from './change-journal.js';
import type { FileBackend } from './file-backend.js';
import type { OpenFiles } from './open-files.js';

/** How long a measured disk space stays valid. */
const SPACE_VALID_MS = 1000;

/**
 * One store path: its journal, directories and space. Directories are made when first needed,
 * and durable before a file in them is answered.
 */
export class StorePath {
  readonly path: string;
  readonly #disk: Disk;
  readonly #environment: Environment;
  /** Of all its files, with a separator at the end. */
  readonly #data: string;
  readonly #temporary: string;
  /** Directories that durably exist, and those that soon will, by their two numbers. */
  readonly #made = new Map<number, Promise<void> | undefined>();
  #space: { readonly value: DiskSpace; readonly atMs: number } | undefined;
  /** Bytes of uploads in flight that the disk does not count yet. */
  #announcedBytes = 0;
  #journal: ChangeJournal | undefined;
  #nextTemporary = 1;

  constructor(path: string, disk: Disk, environment: Environment) {
    this.path = path;
    this.#data = dataDirectory(path) + sep;
    this.#temporary = temporaryDirectory(path) + sep;
    this.#disk = disk;
    this.#environment = environment;
  }

  /** The change journal; throws before `prepare`. */
  get journal(): ChangeJournal {
    if (!this.#journal) throw new TypeError(`${this.path} is not prepared`);
    return this.#journal;
  }

  /**
   * Makes the directories, replays the journal, removes temporary files of earlier runs, and
   * checks that files can be written.
   */
  async prepare(backend: FileBackend): Promise<void> {
    const temporary = temporaryDirectory(this.path);
    try {
      await this.#disk.makeDirectory(temporary);
      this.#journal = await ChangeJournal.open(this.#disk, dataDirectory(this.path), backend);
      for (const name of await this.#disk.list(temporary)) {
        await this.#disk.unlink(join(temporary, name));
      }
      const probe = this.temporaryFile();
      await (await this.#disk.create(probe)).close();
      await this.#disk.unlink(probe);
      await this.#disk.syncDirectory(dataDirectory(this.path));
      await this.#disk.syncDirectory(this.path);
    } catch (error) {
      const reason = messageOf(error);
      throw new StartError(
        codeOf(error) ?? 'store_path_unusable',
        `The storage cannot write to the directory ${this.path}: ${reason}. Choose another directory or give this user the right to write there.`,
        error,
      );
    }
  }

  /** Call it when no change is in flight. */
  async close(): Promise<void> {
    await this.#journal?.close();
    this.#journal = undefined;
  }

  /** Where a file is. It concatenates: a parsed name needs no normalizing. */
  pathOf({ directory: [high, low], base }: Pick<FileId, 'directory' | 'base'>): string {
    return this.#data + high + sep + low + sep + base;
  }

  /** True for a path that `pathOf` may give. */
  has(path: string): boolean {
    return path.startsWith(this.#data);
  }

  /** A free path in the temporary directory. */
  temporaryFile(): string {
    const random = this.#environment.random(2 ** 32).toString(16);
    return `${this.#temporary}${this.#nextTemporary++}-${random}`;
  }

  /** Makes the directory `high/low`; undefined if it exists. */
  makePair(high: number, low: number): Promise<void> | undefined {
    const pair = high * 256 + low;
    if (this.#made.has(pair)) return this.#made.get(pair);
    const making = this.#make(join(dataDirectory(this.path), hexByte(high), hexByte(low)));
    this.#made.set(pair, making);
    making.then(
      () => this.#made.set(pair, undefined),
      () => this.#made.delete(pair),
    );
    return making;
  }

  async #make(directory: string): Promise<void> {
    await this.#disk.makeDirectory(directory);
    const above = dirname(directory);
    await this.#disk.syncDirectory(above);
    await this.#disk.syncDirectory(dirname(above));
  }

  /** Total and free space, measured within the last second. */
  space(): Promise<DiskSpace> | DiskSpace {
    const nowMs = this.#environment.now();
    const known = this.#space;
    if (known && Math.abs(nowMs - known.atMs) <= SPACE_VALID_MS) return this.#left(known.value);
    return this.#disk.space(this.path).then((value) => {
      this.#space = { value, atMs: nowMs };
      return this.#left(value);
    });
  }

  #left({ totalBytes, freeBytes }: DiskSpace): DiskSpace {
    return { totalBytes, freeBytes: Math.max(freeBytes - this.#announcedBytes, 0) };
  }

  /** Counts so many bytes as used space while the action runs. */
  async holding<Result>(bytes: number, action: () => Promise<Result>): Promise<Result> {
    this.#announcedBytes += bytes;
    try {
      return await action();
    } finally {
      this.#announcedBytes -= bytes;
    }
  }
}

/** The store paths of a storage. */
export class StorePaths {
  readonly all: readonly StorePath[];
  #turn = 0;

  constructor(all: readonly StorePath[]) {
    this.all = all;
  }

  /** Status 22 if there is no such store path. */
  at(index: number): StorePath {
    const storePath = this.all[index];
    if (!storePath) throw invalid(`no store path ${index}`);
    return storePath;
  }

  /** The store path of a file. */
  of(path: string): StorePath {
    const storePath = this.all.find((each) => each.has(path));
    if (!storePath) throw new TypeError(`${path} is in no store path`);
    return storePath;
  }

  /** The journal for changes of a file. */
  journalOf(path: string): ChangeJournal {
    return this.of(path).journal;
  }

  /**
   * The store path for an upload of this size: the requested one, or the next with space.
   * Status 22 if there is no such path, 28 if there is no space.
   */
  async roomFor(bytes: number, asked: number): Promise<{ index: number; storePath: StorePath }> {
    const isAny = asked === ANY_STORE_PATH;
    const first = isAny ? this.#turn++ : asked;
    const choices = isAny ? this.all.length : 1;
    for (let step = 0; step < choices; step++) {
      const index = isAny ? (first + step) % this.all.length : asked;
      const storePath = this.at(index);
      const space = storePath.space();
      const { freeBytes } = types.isPromise(space) ? await space : space;
      if (freeBytes >= bytes) return { index, storePath };
    }
    throw new StatusError(Status.noSpace, `no room for ${bytes} bytes`);
  }

  /** Runs the action with a store path as `roomFor` finds it; the bytes count as used meanwhile. */
  async holding<Result>(
    bytes: number,
    asked: number,
    action: (storePath: StorePath, index: number) => Promise<Result>,
  ): Promise<Result> {
    const { index, storePath } = await this.roomFor(bytes, asked);
    return storePath.holding(bytes, () => action(storePath, index));
  }

  /** True if the file's store path has space for so many more bytes. */
  async hasRoom(path: string, bytes: number): Promise<boolean> {
    return (await this.of(path).space()).freeBytes >= bytes;
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map((storePath) => storePath.close()));
  }
}

/**
 * One lock per file. Each holder finds the file settled; if the disk still fails, it gets the
 * disk's error instead.
 */
export class FileLocks {
  readonly #turns = new KeyedLock();
  readonly #storePaths: StorePaths;

  constructor(storePaths: StorePaths) {
    this.#storePaths = storePaths;
  }

  run<Result>(path: string, action: () => Promise<Result>): Promise<Result> {
    return this.#turns.run(path, async () => {
      await this.#storePaths.journalOf(path).settle(path);
      return action();
    });
  }
}

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
