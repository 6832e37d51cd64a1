import { originOf } from '@stevedore/map';
import {
  formatKey,
  type HeldCopies,
  SiblingView,
  type Staging,
  StoreError,
} from '@stevedore/staging';
import { FileMapFiles } from './filemap-files.js';
import { FilesElsewhere } from './files-elsewhere.js';
import type { Found, HolderContext } from './holder.js';

/**
 * Which holder answers for a key: a FileMap of this machine, or the other servers of the deployment.
 * This machine has this process's own FileMap, and those of the siblings, the other processes that
 * share a data directory with it. Each has its own origin, container and FileMap, and every process
 * reads all of them. A key names its origin, and so its directory. Changes go to the process that
 * owns the file.
 */

export interface SiblingOptions {
  readonly directory: string;
  /** Asks the owner to delete it; false if there is no such file. */
  readonly delete: (key: string) => Promise<boolean>;
}

interface Sibling {
  readonly view: SiblingView;
  readonly files: FileMapFiles;
  readonly remove: (key: Buffer) => Promise<boolean>;
}

export class Holders {
  readonly own: FileMapFiles;
  /** Of this process, and then of the others. */
  readonly all: readonly FileMapFiles[];
  /** Undefined without a map. */
  readonly elsewhere: FilesElsewhere | undefined;
  readonly #siblings: readonly Sibling[];
  readonly #origin: number;

  /** `remove` deletes a file of this process; `held`: the copies that are held here. */
  constructor(
    staging: Staging,
    context: HolderContext,
    remove: (key: Buffer) => Promise<boolean>,
    siblings: readonly SiblingOptions[] = [],
    held?: HeldCopies,
  ) {
    this.own = new FileMapFiles(staging, context, remove);
    const isHere = (origin: number): boolean => this.issuerOf(origin) !== undefined;
    this.elsewhere =
      context.deployment && new FilesElsewhere(context.deployment, context, isHere, staging, held);
    this.#origin = staging.origin;
    this.#siblings = siblings.map(({ directory, delete: ask }) => {
      const view = new SiblingView(directory);
      const removeThere = (key: Buffer) => ask(formatKey(key));
      return { view, remove: removeThere, files: new FileMapFiles(view, context, removeThere) };
    });
    this.all = [this.own, ...this.#siblings.map(({ files }) => files)];
  }

  /** True if a sibling issues keys of this origin. */
  has(origin: number): boolean {
    return origin !== this.#origin && this.issuerOf(origin) !== undefined;
  }

  /** Of the process that issues keys of this origin; undefined if that is on another machine. */
  issuerOf(origin: number): FileMapFiles | undefined {
    if (origin === this.#origin) return this.own;
    return this.#siblings.find(({ view }) => view.origin === origin)?.files;
  }

  /**
   * The process here that issued the key, has the file although it did not, or has adopted the key's
   * origin; else the other servers, unless they are not to be asked.
   */
  of(key: Buffer, onlyHere: true): FileMapFiles;
  of(key: Buffer, onlyHere?: boolean): FileMapFiles | FilesElsewhere;
  of(key: Buffer, onlyHere = false): FileMapFiles | FilesElsewhere {
    const { own, all, elsewhere } = this;
    const origin = originOf(key);
    const isAlive = ({ staging }: FileMapFiles): boolean => staging.fileMap.isAlive(key);
    const known = this.issuerOf(origin) ?? all.find(isAlive);
    if (known || !elsewhere) return known ?? own;
    const owner = elsewhere.ownerOf(origin);
    if (this.has(owner)) return this.issuerOf(owner)!;
    return onlyHere || own.staging.fileMap.isDeleted(key) ? own : elsewhere;
  }

  /** Its file, if that takes no time to find. */
  findNow(key: Buffer): Found | undefined {
    const { elsewhere } = this;
    const issuer = this.issuerOf(originOf(key));
    return (issuer ?? elsewhere ?? this.of(key)).findNow(key);
  }

  /**
   * Call when a sibling has restarted. Throws `directory_unusable` if two have the same origin.
   */
  lookAgain(): void {
    const origins = new Set([this.#origin]);
    for (const { view } of this.#siblings) {
      view.lookAgain();
      const { origin } = view;
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
   * Deletes what siblings have made of a file that is gone. One that is not running looks for it when
   * it starts.
   */
  async removeDerivedOf(original: Buffer): Promise<void> {
    for (const { view, remove } of this.#siblings) {
      for (const { key } of view.fileMap.derivedOf(original)) await remove(key);
    }
  }

  close(): void {
    for (const { view } of this.#siblings) view.close();
  }
}
