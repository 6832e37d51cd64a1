import type { Random } from './random.js';
import type { CrashMode, SimulatedFile } from './simulated-file.js';

/**
 * A folder of the simulated disk: names that are seen, names that a sync of the
 * folder has made durable, and what happened to names since. Syncing a file says
 * nothing about its name. After a power failure each creation, renaming and removal
 * that was not synced may or may not have happened.
 */

type NameChange =
  | { readonly what: 'add'; readonly name: string; readonly file: SimulatedFile }
  | { readonly what: 'remove'; readonly name: string }
  | { readonly what: 'rename'; readonly name: string; readonly to: string };

/** How a file comes out of a crash; the same file gives the same answer. */
export type Carry = (file: SimulatedFile) => SimulatedFile;

export class SimulatedFolder {
  #seen = new Map<string, SimulatedFile>();
  #durable = new Map<string, SimulatedFile>();
  #changes: NameChange[] = [];
  /** The folder's own name survives a power failure. */
  isDurable: boolean;

  constructor(isDurable: boolean) {
    this.isDurable = isDurable;
  }

  names(): string[] {
    return [...this.#seen.keys()];
  }

  file(name: string): SimulatedFile | undefined {
    return this.#seen.get(name);
  }

  add(name: string, file: SimulatedFile): void {
    this.#change({ what: 'add', name, file });
  }

  remove(name: string): void {
    if (this.#seen.has(name)) this.#change({ what: 'remove', name });
  }

  rename(name: string, to: string): void {
    this.#change({ what: 'rename', name, to });
  }

  sync(): void {
    this.#durable = new Map(this.#seen);
    this.#changes = [];
  }

  /** The folder after its process was killed. */
  copy(carry: Carry): SimulatedFolder {
    const folder = new SimulatedFolder(this.isDurable);
    folder.#seen = carried(this.#seen, carry);
    folder.#durable = carried(this.#durable, carry);
    folder.#changes = this.#changes.map((change) =>
      change.what === 'add' ? { ...change, file: carry(change.file) } : change,
    );
    return folder;
  }

  /** The folder as it is found after a power failure. */
  survivor(mode: CrashMode, random: Random, carry: Carry): SimulatedFolder {
    const names = new Map(this.#durable);
    for (const change of this.#changes) {
      const happened = mode === 'kept' || (mode !== 'lost' && random.below(2) === 0);
      if (happened) apply(names, change);
    }
    const folder = new SimulatedFolder(true);
    folder.#seen = carried(names, carry);
    folder.#durable = new Map(folder.#seen);
    return folder;
  }

  #change(change: NameChange): void {
    apply(this.#seen, change);
    this.#changes.push(change);
  }
}

function apply(names: Map<string, SimulatedFile>, change: NameChange): void {
  if (change.what === 'add') {
    names.set(change.name, change.file);
    return;
  }
  const file = names.get(change.name);
  if (!file) return;
  names.delete(change.name);
  if (change.what === 'rename') names.set(change.to, file);
}

function carried(names: Map<string, SimulatedFile>, carry: Carry): Map<string, SimulatedFile> {
  return new Map([...names].map(([name, file]) => [name, carry(file)]));
}
