import type { CreatedNow } from '@stevedore/disk';
import {
  appenderSizeField,
  encodeFields,
  encodePath,
  encodeTail,
  type FileId,
  type FileName,
  MAX_NAME_BYTES,
  normalSizeField,
  parseFileName,
  RANDOM_BITS,
  Status,
  TAIL_CHARS,
} from '@stevedore/protocol';
import { randomDigits, StatusError } from '@stevedore/wire';
import { isReservedName } from '../layout.js';
import { exists, invalid, notFound } from '../refusals.js';
import type { FileParts } from './store-paths.js';

/**
 * Names of stored files and their paths. Names are drawn until one is free, which stays
 * reserved until its file exists.
 */

/** An appender's name does not follow its size and CRC-32. */
export type NewKind = 'normal' | 'appender';

export interface Content {
  readonly bytes: number;
  readonly crc32: number;
}

/** What a new name consists of, without its random bits. */
export interface NameParts extends Content {
  readonly kind: NewKind;
  /** This storage as file names have it: IPv4 text or a storage id. */
  readonly source: string;
  readonly createdAtSeconds: number;
  /** `M00/3F/A2/`. */
  readonly directory: string;
  /** What follows the encoded fields; called for each name, as it may be random. */
  readonly tail: () => string;
}

/** Draws of random bits before giving up. */
const MAX_NAME_DRAWS = 16;

export class FileNames {
  readonly #parts: FileParts;
  /** Paths of names whose files do not exist yet. */
  readonly #reserved = new Set<string>();

  constructor(parts: FileParts) {
    this.#parts = parts;
  }

  /** The path that this name stands for. */
  pathOf(id: FileId): string {
    return this.#parts.storePaths.at(id.storePathIndex).pathOf(id);
  }

  async makeDirectory({ storePathIndex, directory: [high, low] }: FileId): Promise<void> {
    const storePath = this.#parts.storePaths.at(storePathIndex);
    await storePath.makePair(Number.parseInt(high, 16), Number.parseInt(low, 16));
  }

  /** The next directory for a file, `M00/3F/A2/`; a promise if it has to be made. */
  nextDirectory(storePathIndex: number): Promise<string> | string {
    const { high, low } = this.#parts.rotation.next();
    const making = this.#parts.storePaths.at(storePathIndex).makePair(high, low);
    const directory = encodePath(storePathIndex, high, low);
    return making ? making.then(() => directory) : directory;
  }

  newTail(extension: string): string {
    return encodeTail(extension, randomDigits(this.#parts.settings.environment, TAIL_CHARS));
  }

  /**
   * Draws names until one is free, then lets `appear` create its file; status 16 if none is.
   * `appearNow` may create it before, as `FileBackend.createNow`.
   */
  async underNewName(
    name: NameParts,
    appear: (path: string, id: FileId) => Promise<void>,
    appearNow?: (path: string) => CreatedNow,
  ): Promise<FileId> {
    for (let count = 0; count < MAX_NAME_DRAWS; count++) {
      const id = this.#draw(name);
      const path = this.pathOf(id);
      if (this.#reserved.has(path)) continue;
      const created = appearNow?.(path);
      if (created === 'taken') continue;
      this.#reserved.add(path);
      try {
        if (!created && (await this.#parts.backend.exists(path))) continue;
        await appear(path, id);
        return id;
      } finally {
        this.#reserved.delete(path);
      }
    }
    throw new StatusError(Status.busy, 'no unique name');
  }

  /**
   * Reserves a given name while the action runs; status 17 if it is taken. Only this process
   * creates files here, so checking once is enough.
   */
  async reserving(path: string, action: () => Promise<void>): Promise<void> {
    if (this.#reserved.has(path)) throw exists(path);
    this.#reserved.add(path);
    try {
      if (await this.#parts.backend.exists(path)) throw exists(path);
      await action();
    } finally {
      this.#reserved.delete(path);
    }
  }

  #draw({ kind, source, createdAtSeconds, bytes, crc32, directory, tail }: NameParts): FileId {
    const random = this.#parts.settings.environment.random(2 ** RANDOM_BITS);
    const sizeField =
      kind === 'appender' ? appenderSizeField(random) : normalSizeField(bytes, random);
    const fields = encodeFields({ source, createdAtSeconds, sizeField, crc32 });
    const text = `${directory}${fields}${tail()}`;
    const id = parseFileName(this.#parts.settings.group, text);
    if (!id) throw new TypeError(`"${text}" is not a file name`);
    return id;
  }
}

/**
 * The file that a request names. Only a store path, two directories and a plain base name
 * pass, so no name leads out of the store paths.
 */

const SHAPE = /^M[0-9A-F]{2}\/[0-9A-F]{2}\/[0-9A-F]{2}\/[^/]+$/;

/**
 * Status 22 for another group, a malformed name or an unknown store path; status 2 for a
 * name that no file here can have.
 */
export function parseRequestedName(
  request: FileName,
  group: string,
  storePathCount: number,
): FileId {
  if (request.group !== group) throw invalid(`this is not group ${request.group}`);
  if (request.name.length > MAX_NAME_BYTES) throw invalid('a name too long');
  // Files of the first FastDFS versions have no store path in their name.
  const name = request.name.startsWith('M') ? request.name : `M00/${request.name}`;
  if (!SHAPE.test(name)) throw invalid('a malformed name');
  if (Number.parseInt(name.slice(1, 3), 16) >= storePathCount) throw invalid('no such store path');
  const id = parseFileName(group, name);
  if (!id || isReservedName(id.base)) throw notFound('no file has such a name');
  return id;
}
