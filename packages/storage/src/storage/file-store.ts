import { dirname, sep } from 'node:path';
import type { Disk } from '@stevedore/disk';
import {
  appenderSizeField,
  ENCODED_FIELDS_CHARS,
  encodeFields,
  encodePath,
  encodeTail,
  type FileId,
  normalSizeField,
  parseFileName,
  RANDOM_BITS,
  Status,
  TAIL_CHARS,
} from '@stevedore/protocol';
import { type Environment, randomDigits } from '../environment.js';
import { asError, StatusError } from '../errors.js';
import type { Payload } from '../net/payload.js';
import type { Change } from '../replication/change.js';
import type { DirectoryRotation } from './directory-rotation.js';
import { IncomingFile } from './incoming-file.js';
import type { KeyedLock } from './keyed-lock.js';
import { dataDirectory, filePath, METADATA_SUFFIX } from './layout.js';
import { foreseen, type OpenFiles } from './open-files.js';
import type { StorePath } from './store-path.js';

/**
 * Names of stored files. A file appears whole, durable and under a name that no
 * other file has, or not at all; then it never changes, unless it is an appender.
 */

/** What the file of a new name holds: an appender's size and CRC-32 are not kept up. */
export type NewKind = 'normal' | 'appender';

export interface NewFile {
  readonly kind: NewKind;
  readonly storePathIndex: number;
  readonly extension: string;
  /** This storage as file names give it: IPv4 text or a storage id. */
  readonly source: string;
}

interface Content {
  readonly bytes: number;
  readonly crc32: number;
}

/** What a link leads to. */
export interface LinkTarget {
  /** As the link shall hold it: relative to its own directory. */
  readonly path: string;
  /** The file's name. */
  readonly name: string;
  readonly bytes: number;
}

export interface FileStoreParts {
  readonly group: string;
  readonly disk: Disk;
  readonly environment: Environment;
  readonly storePaths: readonly StorePath[];
  readonly rotation: DirectoryRotation;
  readonly files: OpenFiles;
  readonly locks: KeyedLock;
  readonly onError: (error: Error) => void;
}

/** Draws of random bits before a name clash is called impossible. */
const MAX_NAME_DRAWS = 16;

export class FileStore {
  readonly #parts: FileStoreParts;
  /** Names given to files that are not on disk yet. */
  readonly #reserved = new Set<string>();

  constructor(parts: FileStoreParts) {
    this.#parts = parts;
  }

  /** Where the file of this name is, if it is anywhere. */
  pathOf(id: FileId): string {
    return filePath(this.#storePath(id.storePathIndex).path, id);
  }

  /** A free name for a file that may later be renamed to `path`. */
  temporaryFile(path: string): string {
    const storePath = this.#parts.storePaths.find((each) =>
      path.startsWith(dataDirectory(each.path) + sep),
    );
    if (!storePath) throw new TypeError(`${path} is in no store path`);
    return storePath.temporaryFile();
  }

  /** Receives a file and answers with its name once it is durable. */
  async store(file: NewFile, payload: Payload, change: Change): Promise<FileId> {
    const temporary = this.#storePath(file.storePathIndex).temporaryFile();
    return this.#receive(temporary, payload, async (incoming) => {
      const createdAtSeconds = change.seconds();
      await incoming.finish(createdAtSeconds);
      const directory = await this.#directory(file.storePathIndex);
      const tail = (): string => this.#tail(file.extension);
      return this.#underNewName(
        () => this.#newName(file.kind, file.source, createdAtSeconds, incoming, directory, tail()),
        (path) => incoming.moveTo(path),
        (id) => change.note('C', id.name),
      );
    });
  }

  /** Receives a file under a name that is settled; status 17 if there is one. */
  async storeAs(id: FileId, payload: Payload, change: Change): Promise<void> {
    const path = this.pathOf(id);
    await this.#reserving(path, async () => {
      await this.#receive(this.temporaryFile(path), payload, async (incoming) => {
        await incoming.finish(change.seconds());
        await this.#appear(
          path,
          () => incoming.moveTo(path),
          () => change.note('C', id.name),
        );
      });
    });
  }

  /** A link of a new name to a file of `bytes`; its CRC-32 is no content's, but random. */
  async linkTo(target: LinkTarget, file: NewFile, change: Change): Promise<FileId> {
    const { environment, disk } = this.#parts;
    const directory = await this.#directory(file.storePathIndex);
    const content = { bytes: target.bytes, crc32: environment.random(2 ** 32) };
    const createdAtSeconds = change.seconds();
    const { source, kind, extension } = file;
    return this.#underNewName(
      () =>
        this.#newName(kind, source, createdAtSeconds, content, directory, this.#tail(extension)),
      (path) => disk.makeLink(target.path, path),
      (id) => change.note('L', id.name, target.name),
    );
  }

  /** A link under a name that is settled; status 17 if there is a file. */
  async linkAs(
    id: FileId,
    target: Pick<LinkTarget, 'path' | 'name'>,
    change: Change,
  ): Promise<void> {
    const path = this.pathOf(id);
    await this.#reserving(path, () =>
      this.#appear(
        path,
        () => this.#parts.disk.makeLink(target.path, path),
        () => change.note('L', id.name, target.name),
      ),
    );
  }

  /**
   * Turns an appender into a normal file: a new name in the same directory with the
   * same tail, the present time, and the size and CRC-32 given. Its metadata goes with it.
   */
  async rename(from: FileId, content: Content, source: string, change: Change): Promise<FileId> {
    const fromPath = this.pathOf(from);
    const directory = from.name.slice(0, -from.base.length);
    const tail = from.base.slice(ENCODED_FIELDS_CHARS);
    const createdAtSeconds = change.seconds();
    return this.#underNewName(
      () => this.#newName('normal', source, createdAtSeconds, content, directory, tail),
      async (path, id) => {
        await change.note('R', id.name, from.name);
        await this.#move(fromPath, path);
      },
      async () => {},
      (path) => this.#parts.disk.rename(path, fromPath),
    );
  }

  /** Gives a file and its metadata another settled name in the same directory; status 17 if it is taken. */
  async renameAs(from: FileId, id: FileId, change: Change): Promise<void> {
    const path = this.pathOf(id);
    await this.#reserving(path, () =>
      this.#appear(
        path,
        () => this.#move(this.pathOf(from), path),
        () => change.note('R', id.name, from.name),
        (each) => this.#parts.disk.rename(each, this.pathOf(from)),
      ),
    );
  }

  async #move(fromPath: string, path: string): Promise<void> {
    const { disk, files } = this.#parts;
    await disk.rename(fromPath, path);
    files.forget(fromPath);
    if (await disk.exists(fromPath + METADATA_SUFFIX)) {
      await disk.rename(fromPath + METADATA_SUFFIX, path + METADATA_SUFFIX);
    }
  }

  /** Removes a file and its metadata durably; status 2 if it is not there. */
  remove(id: FileId, change: Change): Promise<void> {
    const { disk, files, locks, onError } = this.#parts;
    const path = this.pathOf(id);
    const metadata = path + METADATA_SUFFIX;
    return locks.run(path, async () => {
      if (!(await disk.exists(path))) throw new StatusError(Status.notFound, path);
      const hasMetadata = await disk.exists(metadata);
      await Promise.all([
        change.note('D', id.name),
        ...(hasMetadata ? [change.note('D', id.name + METADATA_SUFFIX)] : []),
      ]);
      try {
        await disk.unlink(path);
      } catch (error) {
        throw foreseen(error, path);
      }
      // After the unlink, so that no reader opens it again.
      files.forget(path);
      // The file is gone; metadata left behind is read by nobody.
      if (hasMetadata) {
        await disk.unlink(metadata).catch((error: unknown) => onError(asError(error)));
      }
      await disk.syncDirectory(dirname(path));
    });
  }

  async #receive<Result>(
    temporary: string,
    payload: Payload,
    use: (incoming: IncomingFile) => Promise<Result>,
  ): Promise<Result> {
    const incoming = await IncomingFile.create(this.#parts.disk, temporary);
    try {
      await incoming.receive(payload);
      return await use(incoming);
    } catch (error) {
      await incoming.discard().catch(() => {});
      throw error;
    }
  }

  /** The next directory for a file, `M00/3F/A2/`. */
  async #directory(storePathIndex: number): Promise<string> {
    const { high, low } = this.#parts.rotation.next();
    await this.#storePath(storePathIndex).makePair(high, low);
    return encodePath(storePathIndex, high, low);
  }

  #tail(extension: string): string {
    return encodeTail(extension, randomDigits(this.#parts.environment, TAIL_CHARS));
  }

  #newName(
    kind: NewKind,
    source: string,
    createdAtSeconds: number,
    { bytes, crc32 }: Content,
    directory: string,
    tail: string,
  ): FileId {
    const random = this.#parts.environment.random(2 ** RANDOM_BITS);
    const sizeField =
      kind === 'appender' ? appenderSizeField(random) : normalSizeField(bytes, random);
    const fields = encodeFields({ source, createdAtSeconds, sizeField, crc32 });
    const id = parseFileName(this.#parts.group, `${directory}${fields}${tail}`);
    if (!id) throw new TypeError(`"${directory}${fields}${tail}" is not a file name`);
    return id;
  }

  /** Draws names until one is free, and has a file appear under it. */
  async #underNewName(
    draw: () => FileId,
    appear: (path: string, id: FileId) => Promise<void>,
    note: (id: FileId) => Promise<void>,
    takeBack?: (path: string) => Promise<void>,
  ): Promise<FileId> {
    for (let count = 0; count < MAX_NAME_DRAWS; count++) {
      const id = draw();
      const path = this.pathOf(id);
      if (this.#reserved.has(path)) continue;
      this.#reserved.add(path);
      try {
        if (await this.#parts.disk.exists(path)) continue;
        await this.#appear(
          path,
          () => appear(path, id),
          () => note(id),
          takeBack,
        );
        return id;
      } finally {
        this.#reserved.delete(path);
      }
    }
    throw new StatusError(Status.busy, 'no unique name');
  }

  /** Keeps a settled name for one file. Only this process gives names here, so a look suffices. */
  async #reserving(path: string, action: () => Promise<void>): Promise<void> {
    if (this.#reserved.has(path)) throw new StatusError(Status.exists, path);
    this.#reserved.add(path);
    try {
      if (await this.#parts.disk.exists(path)) throw new StatusError(Status.exists, path);
      await action();
    } finally {
      this.#reserved.delete(path);
    }
  }

  /**
   * Durable and noted when it resolves; whatever of it was there when it fails is
   * taken back. A note of a file that is not there does no harm.
   */
  async #appear(
    path: string,
    appear: () => Promise<void>,
    note: () => Promise<void>,
    takeBack: (path: string) => Promise<void> = (each) => this.#parts.disk.unlink(each),
  ): Promise<void> {
    try {
      await appear();
      await bothDone(this.#parts.disk.syncDirectory(dirname(path)), note());
    } catch (error) {
      await takeBack(path).catch(() => {});
      throw error;
    } finally {
      // Somebody may have looked for it before it was there, or read it before it was taken back.
      this.#parts.files.forget(path);
    }
  }

  #storePath(index: number): StorePath {
    const storePath = this.#parts.storePaths[index];
    if (!storePath) throw new StatusError(Status.invalid, `no store path ${index}`);
    return storePath;
  }
}

/** Waits for both, even if one fails. */
async function bothDone(one: Promise<void>, other: Promise<void>): Promise<void> {
  for (const outcome of await Promise.allSettled([one, other])) {
    if (outcome.status === 'rejected') throw outcome.reason;
  }
}
