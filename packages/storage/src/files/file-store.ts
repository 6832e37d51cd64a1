import type { CreatedNow } from '@stevedore/disk';
import { ENCODED_FIELDS_CHARS, type FileId } from '@stevedore/protocol';
import type { Payload } from '@stevedore/wire';
import { METADATA_SUFFIX } from '../layout.js';
import type { Change } from '../replication/journal.js';
import { CompanionFiles } from './companion-files.js';
import { crcOf } from './file-backend.js';
import { type Content, FileNames, type NewKind } from './file-names.js';
import { IncomingFile } from './incoming-file.js';
import type { FileParts } from './store-paths.js';

/**
 * The stored files, by name. A file becomes visible complete, durable and under a unique
 * name, or not at all. After that, only appenders change.
 */

export interface NewFile {
  readonly kind: NewKind;
  readonly storePathIndex: number;
  readonly extension: string;
  /** This storage as file names have it: IPv4 text or a storage id. */
  readonly source: string;
}

/** What a link points to. */
export interface LinkTarget {
  /** The link's text: relative to its own directory. */
  readonly path: string;
  /** The file's name. */
  readonly name: string;
  readonly bytes: number;
}

export class FileStore {
  readonly #parts: FileParts;
  readonly #names: FileNames;
  readonly #steps: CompanionFiles;

  constructor(parts: FileParts) {
    this.#parts = parts;
    this.#names = new FileNames(parts);
    this.#steps = new CompanionFiles(parts);
  }

  /** The path that this name stands for. */
  pathOf(id: FileId): string {
    return this.#names.pathOf(id);
  }

  /** Receives a file; returns its name once it is durable. */
  async store(file: NewFile, payload: Payload, change: Change): Promise<FileId> {
    return this.#receive(file.storePathIndex, payload, async (incoming) => {
      const seconds = change.seconds();
      return this.#underNewName(
        file,
        seconds,
        incoming,
        (path, id) => this.#appearFile(path, id, incoming, seconds, change),
        (path) => incoming.createNow(path, seconds),
      );
    });
  }

  /**
   * Takes a file that was written to this path of the same disk; returns its name once it is durable.
   * Its size and CRC-32 are those that are read back.
   */
  async take(file: NewFile, temporary: string, bytes: number, change: Change): Promise<FileId> {
    const { disk } = this.#parts.settings;
    const content = await disk.openToUpdate(temporary);
    try {
      const { size } = await content.stat();
      if (size !== bytes) throw new Error(`a file of ${bytes} bytes has ${size}`);
      const crc32 = await crcOf(content, bytes);
      const seconds = change.seconds();
      await content.setModified(seconds);
      await content.sync();
      return await this.#underNewName(file, seconds, { bytes, crc32 }, (path, id) =>
        this.#appear(
          path,
          () => disk.rename(temporary, path),
          () => change.note('C', id.name),
        ),
      );
    } finally {
      await content.close();
    }
  }

  /** Receives a file under a given name, timed later than `after`; status 17 if it is taken. */
  async storeAs(id: FileId, payload: Payload, change: Change, after = 0): Promise<FileId> {
    const path = this.pathOf(id);
    await this.#names.reserving(path, () =>
      this.#receive(id.storePathIndex, payload, async (incoming) => {
        await this.#appearFile(path, id, incoming, change.seconds(after), change);
      }),
    );
    return id;
  }

  /**
   * Receives another member's file under its given name and replaces a file of that name.
   * `change` is called under the file's lock, once all bytes have arrived; if it returns
   * undefined, the received bytes are discarded.
   */
  async receive(
    id: FileId,
    payload: Payload,
    mtimeSeconds: number,
    change: (path: string) => Promise<Change | undefined>,
  ): Promise<void> {
    const { files, locks, storePaths } = this.#parts;
    const path = this.pathOf(id);
    await this.#names.makeDirectory(id);
    await this.#receive(id.storePathIndex, payload, async (incoming) => {
      // A small file is written only once `change` accepts it; a large one, before the lock.
      if (!incoming.isInMemory) await incoming.finish(mtimeSeconds);
      await locks.run(path, async () => {
        const made = await change(path);
        if (!made) return incoming.discard();
        if (incoming.isInMemory) await incoming.finish(mtimeSeconds);
        // Changes to the old file must not be replayed on the new one.
        const journal = storePaths.journalOf(path);
        if (journal.has(path)) await journal.forget(path);
        try {
          await incoming.moveTo(path);
          await this.#noted(path, made.note('C', id.name));
        } finally {
          files.forget(path);
        }
      });
    });
  }

  /** Makes another member's link, unless its name is taken. */
  async receiveLink(
    id: FileId,
    target: Pick<LinkTarget, 'path' | 'name'>,
    change: Change,
  ): Promise<void> {
    const { backend, files, locks } = this.#parts;
    const path = this.pathOf(id);
    await this.#names.makeDirectory(id);
    await locks.run(path, async () => {
      if (await backend.exists(path)) return;
      await backend.makeLink(target.path, path);
      files.forget(path);
      await this.#noted(path, change.note('L', id.name, target.name));
    });
  }

  /** Resolves once the new file and its binlog record are durable. */
  #noted(path: string, note: Promise<void>): Promise<void> {
    return bothDone(this.#parts.backend.sync(path), note);
  }

  /**
   * Turns an appender into a normal file: a new name in the same directory with the same
   * tail, the present time, and the given size and CRC-32. Its metadata moves with it.
   */
  async rename(from: FileId, content: Content, source: string, change: Change): Promise<FileId> {
    const fromPath = this.pathOf(from);
    const name = {
      ...content,
      kind: 'normal' as const,
      source,
      createdAtSeconds: change.seconds(),
      directory: from.name.slice(0, -from.base.length),
      tail: () => from.base.slice(ENCODED_FIELDS_CHARS),
    };
    return this.#names.underNewName(name, (path, id) =>
      this.#steps.move(fromPath, path, () => this.#noteMove(from, id, change)),
    );
  }

  /** Renames a file and its metadata in the same directory; status 17 if the name is taken. */
  async renameAs(from: FileId, id: FileId, change: Change): Promise<void> {
    const path = this.pathOf(id);
    await this.#names.reserving(path, () =>
      this.#steps.move(this.pathOf(from), path, () => this.#noteMove(from, id, change)),
    );
  }

  /** A member that lacks the old file needs a record for the metadata's new name. */
  async #noteMove(from: FileId, id: FileId, change: Change): Promise<void> {
    const hasMetadata = await this.#parts.backend.hasMetadata(this.pathOf(from));
    await Promise.all([
      change.note('R', id.name, from.name),
      ...(hasMetadata ? [change.note('C', id.name + METADATA_SUFFIX)] : []),
    ]);
  }

  /**
   * Durably removes a file and its companions; status 2 if there is none. `keep` is called
   * under the file's lock and can prevent the removal.
   */
  remove(
    id: FileId,
    change: Change,
    keep: (path: string) => Promise<boolean> = async () => false,
  ): Promise<void> {
    const path = this.pathOf(id);
    const note = async (hasMetadata: boolean): Promise<void> => {
      await Promise.all([
        change.note('D', id.name),
        ...(hasMetadata ? [change.note('D', id.name + METADATA_SUFFIX)] : []),
      ]);
    };
    return this.#parts.locks.run(path, async () => {
      if (!(await keep(path))) await this.#steps.remove(path, note);
    });
  }

  /** Draws a name in the next directory and lets `appear` create its file. */
  async #underNewName(
    { kind, source, storePathIndex, extension }: NewFile,
    createdAtSeconds: number,
    { bytes, crc32 }: Content,
    appear: (path: string, id: FileId) => Promise<void>,
    appearNow?: (path: string) => CreatedNow,
  ): Promise<FileId> {
    const next = this.#names.nextDirectory(storePathIndex);
    const directory = typeof next === 'string' ? next : await next;
    const tail = (): string => this.#names.newTail(extension);
    const name = { kind, source, createdAtSeconds, bytes, crc32, directory, tail };
    return this.#names.underNewName(name, appear, appearNow);
  }

  async #receive<Result>(
    storePathIndex: number,
    payload: Payload,
    use: (incoming: IncomingFile) => Promise<Result>,
  ): Promise<Result> {
    const { backend, storePaths } = this.#parts;
    const temporary = storePaths.at(storePathIndex).temporaryFile();
    const incoming = new IncomingFile(backend, temporary);
    try {
      const receiving = incoming.receive(payload);
      if (receiving) await receiving;
      return await use(incoming);
    } catch (error) {
      await incoming.discard().catch(() => {});
      throw error;
    }
  }

  #appearFile(
    path: string,
    id: FileId,
    incoming: IncomingFile,
    mtimeSeconds: number,
    change: Change,
  ): Promise<void> {
    return this.#appear(
      path,
      () => incoming.finishAt(path, mtimeSeconds),
      () => change.note('C', id.name),
    );
  }

  /**
   * Makes a file visible. It and its binlog record are durable when this resolves; a failure
   * is rolled back. A record of a missing file does no harm.
   */
  async #appear(
    path: string,
    appear: () => Promise<void> | undefined,
    note: () => Promise<void>,
  ): Promise<void> {
    const { backend, files } = this.#parts;
    try {
      const appearing = appear();
      if (appearing) await appearing;
      await this.#noted(path, note());
    } catch (error) {
      await backend.remove(path).catch(() => {});
      throw error;
    } finally {
      // A reader may have cached that it is missing, or its content before the roll-back.
      files.forget(path);
    }
  }
}

/** Waits for both, even if one fails. */
async function bothDone(one: Promise<void>, other: Promise<void>): Promise<void> {
  other.catch(() => {});
  try {
    await one;
  } finally {
    await other;
  }
}
