import type { FastdfsClient } from '@stevedore/fastdfs';
import { originOf } from '@stevedore/map';
import { formatKey, SiblingView, StoreError } from '@stevedore/staging';
import { Downloads } from './downloads.js';
import type { PendingIds } from './id-pending.js';
import { Lookup, type SiblingToAsk } from './lookup.js';
import type { MissingFiles } from './missing-files.js';
import { Reader, type ReaderOptions } from './reader.js';
import type { Reads } from './reads.js';

/**
 * The other processes of this machine that share a data directory with this one. Each has its own
 * origin, container and FileMap, and every process reads all of them. A key names its origin, and
 * so its directory. Changes go to the process that owns the file.
 */

export interface SiblingOptions {
  readonly directory: string;
  /** Asks the owner to delete it; false if there is no such file. */
  readonly delete: (key: string) => Promise<boolean>;
}

export interface SiblingsParts {
  readonly client: FastdfsClient;
  readonly missing: MissingFiles;
  readonly reader: Reader;
  readonly readerOptions: ReaderOptions;
  readonly reads: Reads;
  readonly now: () => number;
  readonly pendingIds: PendingIds;
  /** Of this process. */
  readonly origin: number;
  /** Origin of the server that knows every file of an origin. */
  readonly ownerOf: (origin: number) => number;
}

class Sibling implements SiblingToAsk {
  readonly staging: SiblingView;
  readonly lookup: Lookup;
  readonly reader: Reader;
  readonly delete: (key: string) => Promise<boolean>;

  constructor(
    { directory, delete: remove }: SiblingOptions,
    { missing, readerOptions, ...parts }: SiblingsParts,
  ) {
    this.delete = remove;
    this.staging = new SiblingView(directory);
    const { staging } = this;
    const downloads = new Downloads(parts.client, staging, missing);
    const reader = new Reader(staging, downloads, readerOptions, parts.reader);
    this.reader = reader;
    this.lookup = new Lookup({ ...parts, staging, downloads, reader, foreignFiles: undefined });
  }
}

export class Siblings {
  readonly all: readonly Sibling[];
  readonly #origin: number;
  readonly #ownerOf: (origin: number) => number;

  constructor(options: readonly SiblingOptions[], parts: SiblingsParts) {
    this.all = options.map((each) => new Sibling(each, parts));
    this.#origin = parts.origin;
    this.#ownerOf = parts.ownerOf;
  }

  /** True if one of them issues keys of this origin. */
  has(origin: number): boolean {
    return this.#find(origin) !== undefined;
  }

  /** The process that issued the key. */
  ofText(key: string): Sibling | undefined {
    // Bytes 6 and 7 of the key: they begin at a boundary of base64's groups of three bytes.
    return this.#find(Buffer.from(key.slice(8, 12), 'base64url').readUInt16BE(0));
  }

  /**
   * The process that has the file, issued its key or has adopted its origin; undefined if that is
   * this one or on another machine. A file may be in a directory that did not issue its key.
   */
  ofKey(key: Buffer, isHere: () => boolean): Sibling | undefined {
    const origin = originOf(key);
    if (origin === this.#origin) return undefined;
    const owner = this.#find(origin);
    if (owner) return owner;
    if (isHere()) return undefined;
    const adopter = this.#find(this.#ownerOf(origin));
    return adopter ?? this.all.find(({ staging }) => staging.fileMap.isAlive(key));
  }

  /**
   * Call when a sibling has restarted. Throws `directory_unusable` if two have the same origin.
   */
  lookAgain(): void {
    const origins = new Set([this.#origin]);
    for (const { staging } of this.all) {
      staging.lookAgain();
      const { origin } = staging;
      if (origin === undefined) continue;
      if (origins.has(origin)) {
        throw new StoreError(
          'directory_unusable',
          `two directories of this gateway have origin ${origin}: one is a copy of the other; remove it`,
        );
      }
      origins.add(origin);
    }
  }

  /**
   * Deletes what they have made of a file that is gone. One that is not running looks for it when it
   * starts.
   */
  async removeDerivedOf(original: Buffer): Promise<void> {
    for (const { staging, delete: remove } of this.all) {
      for (const { key } of staging.fileMap.derivedOf(original)) await remove(formatKey(key));
    }
  }

  close(): void {
    for (const { staging } of this.all) staging.close();
  }

  #find(origin: number): Sibling | undefined {
    return this.all.find(({ staging }) => staging.origin === origin);
  }
}
