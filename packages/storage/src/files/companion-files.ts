import { removeIfThere } from '@stevedore/disk';
import { asError } from '@stevedore/wire';
import { DELETED_SUFFIX } from '../layout.js';
import { asNotFound, notFound } from '../refusals.js';
import type { FileParts } from './store-paths.js';

/**
 * Moves or removes a file together with its companions. As that takes several disk
 * operations, the journal records it first: after a power failure it has happened completely
 * or not at all. Callers hold the file's lock.
 */
export class CompanionFiles {
  readonly #parts: FileParts;

  constructor(parts: FileParts) {
    this.#parts = parts;
  }

  /** Renames a file and its metadata in the same directory, both or neither. */
  async move(from: string, to: string, note: () => Promise<void>): Promise<void> {
    const { backend, files, settings, storePaths } = this.#parts;
    const journal = storePaths.journalOf(from);
    await note();
    const recorded = await journal.record({ what: 'move', path: from, to });
    try {
      await backend.move(from, to);
      files.forget(from);
      await backend.sync(to);
    } catch (error) {
      recorded.unsettled(() => this.#moveBack(from, to));
      await journal.settle(from).catch((again: unknown) => settings.onError(asError(again)));
      throw error;
    } finally {
      // A reader may have cached that it is missing.
      files.forget(to);
    }
    recorded.done();
  }

  async #moveBack(from: string, to: string): Promise<void> {
    const { backend, files, storePaths } = this.#parts;
    await backend.move(to, from);
    files.forget(to);
    files.forget(from);
    await backend.sync(from);
    await storePaths.journalOf(from).forget(from);
  }

  /**
   * Durably removes a file and its companions; status 2 if there is none. `note` writes the
   * binlog record.
   */
  async remove(path: string, note: (hasMetadata: boolean) => Promise<void>): Promise<void> {
    const { backend, files, settings, storePaths } = this.#parts;
    const { disk, onError } = settings;
    const journal = storePaths.journalOf(path);
    if (!(await backend.exists(path))) throw notFound(path);
    const hasMetadata = await backend.hasMetadata(path);
    const hasCompanions = hasMetadata || (await disk.exists(path + DELETED_SUFFIX));
    await note(hasMetadata);
    const recorded =
      hasCompanions || journal.has(path)
        ? await journal.record({ what: 'remove', path })
        : undefined;
    try {
      await backend.remove(path);
    } catch (error) {
      recorded?.done();
      throw asNotFound(error, path);
    }
    // After the unlink, so that no reader opens it again.
    files.forget(path);
    try {
      await backend.sync(path);
    } catch (error) {
      recorded?.unsettled(() => this.#removeCompanions(path));
      throw error;
    }
    if (!hasCompanions) {
      recorded?.done();
      return;
    }
    // The file is durably gone. Remove its companions now, or later if the disk fails.
    recorded?.unsettled(() => this.#removeCompanions(path));
    await journal.settle(path).catch((error: unknown) => onError(asError(error)));
  }

  async #removeCompanions(path: string): Promise<void> {
    const { backend, settings } = this.#parts;
    // Until this sync, a crash could bring the file back without its companions.
    await backend.sync(path);
    await removeIfThere(settings.disk, path + DELETED_SUFFIX);
    await backend.setMetadata(path, undefined);
  }
}
