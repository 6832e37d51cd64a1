import { allSettled } from './data-file.js';
import type { PartRequests } from './part-requests.js';

/**
 * Data files that are made before they are needed: once a file has grown beyond a share
 * of its threshold, empty parts are made for it at the I/O servers, durably, while its
 * clients go on. When it outgrows its row the parts are there. What is made ahead lives
 * in this process alone: after a crash it is an orphan like any other.
 */

export interface AheadFile {
  readonly handle: string;
  readonly servers: readonly string[];
}

export interface AheadFilesParts {
  readonly requests: PartRequests;
  /** A handle that nobody has, held for its user; undefined: no server takes a file. */
  readonly begin: () => AheadFile | undefined;
  /** It is not needed after all. */
  readonly drop: (file: AheadFile) => void;
}

interface Ahead extends AheadFile {
  /** Resolves with whether all parts are there. */
  readonly made: Promise<boolean>;
}

/** Files that have one; the oldest gives way. */
const MAX_AHEAD = 1024;

export class AheadFiles {
  readonly #parts: AheadFilesParts;
  readonly #files = new Map<string, Ahead>();

  constructor(parts: AheadFilesParts) {
    this.#parts = parts;
  }

  /** Begins to make one for the file, if it has none. */
  make(name: string): void {
    if (this.#files.has(name)) return;
    const file = this.#parts.begin();
    if (!file) return;
    const [oldest] = this.#files.keys();
    if (oldest !== undefined && this.#files.size >= MAX_AHEAD) this.drop(oldest);
    const made = this.#make(file).then(
      () => true,
      () => false,
    );
    this.#files.set(name, { ...file, made });
  }

  /** The one of the file, which is the caller's from then on; waits until it is made. */
  async take(name: string): Promise<AheadFile | undefined> {
    const ahead = this.#files.get(name);
    if (!ahead) return undefined;
    this.#files.delete(name);
    if (await ahead.made) return ahead;
    this.#parts.drop(ahead);
    return undefined;
  }

  /** The file does not need it any more. */
  drop(name: string): void {
    const ahead = this.#files.get(name);
    if (!ahead) return;
    this.#files.delete(name);
    void ahead.made.then(() => this.#parts.drop(ahead));
  }

  /** Resolves when nothing is under way any more. */
  async settled(): Promise<void> {
    await Promise.all([...this.#files.values()].map(({ made }) => made));
  }

  async #make({ handle, servers }: AheadFile): Promise<void> {
    const { requests } = this.#parts;
    await allSettled(servers.map((server) => requests.create(server, [handle])));
  }
}
