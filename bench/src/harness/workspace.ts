import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Directories for the data of one part of a benchmark: fresh ones on request, none left at the end. */
export class Workspace implements AsyncDisposable {
  readonly directory: string;
  readonly #removeAtExit: () => void;
  #count = 0;

  private constructor(directory: string) {
    this.directory = directory;
    this.#removeAtExit = () =>
      rmSync(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
    // For an end that skips the disposal.
    process.once('exit', this.#removeAtExit);
  }

  /** `parent` must exist; without one, the system's place for temporary files. */
  static async open(parent: string = tmpdir()): Promise<Workspace> {
    return new Workspace(await mkdtemp(join(parent, 'stevedore-bench-')));
  }

  /** A path that nothing has used; the directory is not there yet. */
  fresh(name: string): string {
    this.#count += 1;
    return join(this.directory, `${this.#count}-${name}`);
  }

  async remove(path: string): Promise<void> {
    await rm(path, { recursive: true, force: true, maxRetries: 3 });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.remove(this.directory);
    process.off('exit', this.#removeAtExit);
  }
}
