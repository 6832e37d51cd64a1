import { relative, sep } from 'node:path';
import { KeyedLock } from '@stevedore/disk';
import { dataDirectory } from '../layout.js';
import type { Recorded } from './change-journal.js';
import type { JournalChange } from './change-journal-format.js';
import type { StorePath } from './store-path.js';

/** The change journals of all store paths: a file's changes are in that of its own. */
export class ChangeJournals {
  readonly #storePaths: readonly StorePath[];

  constructor(storePaths: readonly StorePath[]) {
    this.#storePaths = storePaths;
  }

  /** Resolves once the change is durably written down, before it is made. */
  record(change: JournalChange, body?: readonly Buffer[]): Promise<Recorded> {
    const storePath = this.storePathOf(change.path);
    const path = this.#inside(storePath, change.path);
    const recorded =
      change.what === 'move'
        ? { ...change, path, to: this.#inside(storePath, change.to) }
        : { ...change, path };
    return storePath.journal.record(recorded, body);
  }

  /** What was recorded of the file counts no more, even after a crash. */
  async forget(path: string): Promise<void> {
    (await this.record({ what: 'settled', path })).done();
  }

  /** True if a journal still has records about the file. */
  has(path: string): boolean {
    const storePath = this.storePathOf(path);
    return storePath.journal.has(this.#inside(storePath, path));
  }

  /** True if a change of the file has not come to its end. */
  isUnsettled(path: string): boolean {
    const storePath = this.storePathOf(path);
    return storePath.journal.isUnsettled(this.#inside(storePath, path));
  }

  /** Brings to an end what a failing disk has left of a change; rejects if it still fails. */
  settle(path: string): Promise<void> {
    const storePath = this.storePathOf(path);
    return storePath.journal.settle(this.#inside(storePath, path));
  }

  storePathOf(path: string): StorePath {
    const storePath = this.#storePaths.find((each) =>
      path.startsWith(dataDirectory(each.path) + sep),
    );
    if (!storePath) throw new TypeError(`${path} is in no store path`);
    return storePath;
  }

  #inside(storePath: StorePath, path: string): string {
    return relative(dataDirectory(storePath.path), path).replaceAll(sep, '/');
  }
}

/**
 * Those who work on one file take turns, and each finds it settled. Where the disk
 * still fails, its error is theirs.
 */
export class FileLocks {
  readonly #turns = new KeyedLock();
  readonly #journals: ChangeJournals;

  constructor(journals: ChangeJournals) {
    this.#journals = journals;
  }

  run<Result>(path: string, action: () => Promise<Result>): Promise<Result> {
    return this.#turns.run(path, async () => {
      await this.#journals.settle(path);
      return action();
    });
  }
}
