import type { Random } from '../random.js';
import type { CrashMode, SimulatedFile } from './file.js';

/**
 * A folder of the simulated disk: names that are seen, names that a sync of the
 * folder has made durable, and what happened to names since. Syncing a file says
 * nothing about its name. After a power failure each creation, renaming and removal
 * that was not synced may or may not have happened.
 *
 * A file that was moved to another folder is in one of them at least: it is gone
 * from the first only if it has arrived in the second, and it has arrived once
 * either of them was synced.
 */

export interface SimulatedLink {
  readonly target: string;
  readonly mtimeSeconds: number;
}

export type SimulatedNode = SimulatedFile | SimulatedLink;

/** A file on its way from one folder to another. */
export interface Move {
  hasArrived: boolean;
}

type NameChange =
  | {
      readonly what: 'add';
      readonly name: string;
      readonly node: SimulatedNode;
      readonly move?: Move;
    }
  | { readonly what: 'remove'; readonly name: string; readonly move?: Move }
  | { readonly what: 'rename'; readonly name: string; readonly to: string };

/** How things come out of a crash; the same thing gives the same answer. */
export interface Carry {
  readonly node: (node: SimulatedNode) => SimulatedNode;
  /** For the folder after a kill. */
  readonly move: (move: Move) => Move;
  /** For the folder after a power failure: whether the file has arrived. */
  readonly hasArrived: (move: Move) => boolean;
}

export function isLink(node: SimulatedNode): node is SimulatedLink {
  return 'target' in node;
}

export class SimulatedFolder {
  #seen = new Map<string, SimulatedNode>();
  #durable = new Map<string, SimulatedNode>();
  #changes: NameChange[] = [];
  /** The folder's own name survives a power failure. */
  isDurable: boolean;

  constructor(isDurable: boolean) {
    this.isDurable = isDurable;
  }

  names(): string[] {
    return [...this.#seen.keys()];
  }

  node(name: string): SimulatedNode | undefined {
    return this.#seen.get(name);
  }

  add(name: string, node: SimulatedNode): void {
    this.#change({ what: 'add', name, node });
  }

  remove(name: string): void {
    if (this.#seen.has(name)) this.#change({ what: 'remove', name });
  }

  rename(name: string, to: string): void {
    if (name !== to) this.#change({ what: 'rename', name, to });
  }

  moveTo(other: SimulatedFolder, name: string, to: string): void {
    const move = { hasArrived: false };
    other.#change({ what: 'add', name: to, node: this.#seen.get(name)!, move });
    this.#change({ what: 'remove', name, move });
  }

  sync(): void {
    for (const change of this.#changes) {
      if (change.what !== 'rename' && change.move) change.move.hasArrived = true;
    }
    this.#durable = new Map(this.#seen);
    this.#changes = [];
  }

  /** The folder after its process was killed. */
  copy(carry: Carry): SimulatedFolder {
    const folder = new SimulatedFolder(this.isDurable);
    folder.#seen = carried(this.#seen, carry);
    folder.#durable = carried(this.#durable, carry);
    folder.#changes = this.#changes.map((change) => {
      const copied = change.what === 'add' ? { ...change, node: carry.node(change.node) } : change;
      if (copied.what === 'rename' || !copied.move) return copied;
      return { ...copied, move: carry.move(copied.move) };
    });
    return folder;
  }

  /** The folder as it is found after a power failure. */
  survivor(mode: CrashMode, random: Random, carry: Carry): SimulatedFolder {
    const names = new Map(this.#durable);
    const mayHappen = () => mode === 'kept' || (mode !== 'lost' && random.below(2) === 0);
    for (const change of this.#changes) {
      const move = change.what === 'rename' ? undefined : change.move;
      const happened =
        move === undefined
          ? mayHappen()
          : carry.hasArrived(move) && (change.what === 'add' || mayHappen());
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

function apply(names: Map<string, SimulatedNode>, change: NameChange): void {
  if (change.what === 'add') {
    names.set(change.name, change.node);
    return;
  }
  const node = names.get(change.name);
  if (!node) return;
  names.delete(change.name);
  if (change.what === 'rename') names.set(change.to, node);
}

function carried(names: Map<string, SimulatedNode>, carry: Carry): Map<string, SimulatedNode> {
  return new Map([...names].map(([name, node]) => [name, carry.node(node)]));
}
