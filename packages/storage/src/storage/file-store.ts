import { dirname } from 'node:path';
import { type Disk, removeIfThere } from '@stevedore/disk';
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
import type { ChangeJournals, FileLocks } from './change-journals.js';
import type { DirectoryRotation } from './directory-rotation.js';
import { IncomingFile } from './incoming-file.js';
import { DELETED_SUFFIX, filePath, METADATA_SUFFIX } from './layout.js';
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
  readonly locks: FileLocks;
  readonly journals: ChangeJournals;
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
    return this.#parts.journals.storePathOf(path).temporaryFile();
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
        (path, id) =>
          this.#appear(
            path,
            () => incoming.moveTo(path),
            () => change.note('C', id.name),
          ),
      );
    });
  }

  /** Receives a file under a name that is settled, later than `after`; status 17 if there is one. */
  async storeAs(id: FileId, payload: Payload, change: Change, after = 0): Promise<void> {
    const path = this.pathOf(id);
    await this.#reserving(path, async () => {
      await this.#receive(this.temporaryFile(path), payload, async (incoming) => {
        await incoming.finish(change.seconds(after));
        await this.#appear(
          path,
          () => incoming.moveTo(path),
          () => change.note('C', id.name),
        );
      });
    });
  }

  /**
   * Receives a file that another member has, under its settled name, in the place of
   * one that is there. `keep` is asked once all bytes are here, and no other change of
   * the file is under way, whether what is there is to stay; then the bytes are dropped.
   */
  async receive(
    id: FileId,
    payload: Payload,
    change: Change,
    keep: (path: string) => Promise<boolean>,
  ): Promise<void> {
    const { files, journals, locks } = this.#parts;
    const path = this.pathOf(id);
    await this.#makeDirectory(id);
    await this.#receive(this.temporaryFile(path), payload, async (incoming) => {
      await incoming.finish(change.seconds());
      await locks.run(path, async () => {
        if (await keep(path)) {
          await incoming.discard();
          return;
        }
        // What was once changed in the old file must not be repeated in the new one.
        if (journals.has(path)) await journals.forget(path);
        try {
          await incoming.moveTo(path);
          await this.#noted(path, change.note('C', id.name));
        } finally {
          files.forget(path);
        }
      });
    });
  }

  /** A link that another member has; nothing happens if there is something of its name. */
  async receiveLink(
    id: FileId,
    target: Pick<LinkTarget, 'path' | 'name'>,
    change: Change,
  ): Promise<void> {
    const { disk, files, locks } = this.#parts;
    const path = this.pathOf(id);
    await this.#makeDirectory(id);
    await locks.run(path, async () => {
      if (await disk.exists(path)) return;
      await disk.makeLink(target.path, path);
      files.forget(path);
      await this.#noted(path, change.note('L', id.name, target.name));
    });
  }

  async #makeDirectory({ storePathIndex, directory: [high, low] }: FileId): Promise<void> {
    const storePath = this.#storePath(storePathIndex);
    await storePath.makePair(Number.parseInt(high, 16), Number.parseInt(low, 16));
  }

  /** What has appeared is durable, and so is its note. */
  #noted(path: string, note: Promise<void>): Promise<void> {
    return bothDone(this.#parts.disk.syncDirectory(dirname(path)), note);
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
      (path, id) =>
        this.#appear(
          path,
          () => disk.makeLink(target.path, path),
          () => change.note('L', id.name, target.name),
        ),
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
      (path, id) => this.#move(fromPath, path, () => this.#noteMove(from, id, change)),
    );
  }

  /** Gives a file and its metadata another settled name in the same directory; status 17 if it is taken. */
  async renameAs(from: FileId, id: FileId, change: Change): Promise<void> {
    const path = this.pathOf(id);
    await this.#reserving(path, () =>
      this.#move(this.pathOf(from), path, () => this.#noteMove(from, id, change)),
    );
  }

  /** Metadata under its new name is news to members that have not got the old one. */
  async #noteMove(from: FileId, id: FileId, change: Change): Promise<void> {
    const hasMetadata = await this.#parts.disk.exists(this.pathOf(from) + METADATA_SUFFIX);
    await Promise.all([
      change.note('R', id.name, from.name),
      ...(hasMetadata ? [change.note('C', id.name + METADATA_SUFFIX)] : []),
    ]);
  }

  /**
   * Gives a file and its metadata another name in the same directory, both or none.
   * Only to be called by who has the file for itself.
   */
  async #move(from: string, to: string, note: () => Promise<void>): Promise<void> {
    const { disk, files, journals, onError } = this.#parts;
    await note();
    const recorded = await journals.record({ what: 'move', path: from, to });
    try {
      await disk.rename(from, to);
      files.forget(from);
      if (await disk.exists(from + METADATA_SUFFIX)) {
        await disk.rename(from + METADATA_SUFFIX, to + METADATA_SUFFIX);
      }
      await disk.syncDirectory(dirname(to));
    } catch (error) {
      recorded.unsettled(() => this.#moveBack(from, to));
      await journals.settle(from).catch((again: unknown) => onError(asError(again)));
      throw error;
    } finally {
      // Somebody may have looked for it before it was there.
      files.forget(to);
    }
    recorded.done();
  }

  async #moveBack(from: string, to: string): Promise<void> {
    const { disk, files, journals } = this.#parts;
    for (const suffix of [METADATA_SUFFIX, '']) {
      if (await disk.exists(to + suffix)) await disk.rename(to + suffix, from + suffix);
    }
    files.forget(to);
    files.forget(from);
    await disk.syncDirectory(dirname(from));
    await journals.forget(from);
  }

  /** Removes a file and what lies beside it durably; status 2 if it is not there. */
  remove(id: FileId, change: Change): Promise<void> {
    const { disk, files, locks, journals, onError } = this.#parts;
    const path = this.pathOf(id);
    return locks.run(path, async () => {
      if (!(await disk.exists(path))) throw new StatusError(Status.notFound, path);
      const hasMetadata = await disk.exists(path + METADATA_SUFFIX);
      const hasCompanions = hasMetadata || (await disk.exists(path + DELETED_SUFFIX));
      await Promise.all([
        change.note('D', id.name),
        ...(hasMetadata ? [change.note('D', id.name + METADATA_SUFFIX)] : []),
      ]);
      const recorded =
        hasCompanions || journals.has(path)
          ? await journals.record({ what: 'remove', path })
          : undefined;
      try {
        await disk.unlink(path);
      } catch (error) {
        recorded?.done();
        throw foreseen(error, path);
      }
      // After the unlink, so that no reader opens it again.
      files.forget(path);
      try {
        await disk.syncDirectory(dirname(path));
      } catch (error) {
        recorded?.unsettled(() => this.#removeCompanions(path));
        throw error;
      }
      if (!hasCompanions) {
        recorded?.done();
        return;
      }
      // The file is gone for good; what belonged to it goes now, or later.
      recorded?.unsettled(() => this.#removeCompanions(path));
      await journals.settle(path).catch((error: unknown) => onError(asError(error)));
    });
  }

  async #removeCompanions(path: string): Promise<void> {
    const { disk } = this.#parts;
    // Before this the file could come back, and would then have lost its companions.
    await disk.syncDirectory(dirname(path));
    for (const suffix of [METADATA_SUFFIX, DELETED_SUFFIX]) {
      await removeIfThere(disk, path + suffix);
    }
    await disk.syncDirectory(dirname(path));
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
  ): Promise<FileId> {
    for (let count = 0; count < MAX_NAME_DRAWS; count++) {
      const id = draw();
      const path = this.pathOf(id);
      if (this.#reserved.has(path)) continue;
      this.#reserved.add(path);
      try {
        if (await this.#parts.disk.exists(path)) continue;
        await appear(path, id);
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
  ): Promise<void> {
    const { disk, files } = this.#parts;
    try {
      await appear();
      await this.#noted(path, note());
    } catch (error) {
      await disk.unlink(path).catch(() => {});
      throw error;
    } finally {
      // Somebody may have looked for it before it was there, or read it before it was taken back.
      files.forget(path);
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
