import { createHash } from 'node:crypto';
import { posix } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Disk, DiskFile, DiskLink, DiskSpace } from '@stevedore/disk';
import type { Random } from '../random.js';
import { type CrashMode, SimulatedFile } from './file.js';
import {
  type Carry,
  isLink,
  type Move,
  SimulatedFolder,
  type SimulatedLink,
  type SimulatedNode,
} from './folder.js';

/**
 * A disk in memory that forgets what was not synced, and fails when it is told to.
 * It counts its operations; each has its effect at once and is answered a turn of
 * the event loop later, so that others come in between.
 *
 * After `stop` no operation has an effect any more and each rejects with `DiskStopped`
 * (closing a file does nothing and resolves): what is left of the process that used
 * the disk finds nothing to write to.
 */

export type Operation =
  | 'create'
  | 'open'
  | 'update'
  | 'link'
  | 'readLink'
  | 'rename'
  | 'unlink'
  | 'exists'
  | 'makeDirectory'
  | 'syncDirectory'
  | 'list'
  | 'stat'
  | 'read'
  | 'write'
  | 'truncate'
  | 'touch'
  | 'sync';

/** EIO: any operation. ENOSPC: those that take room. EMFILE: those that open. */
export type FaultCode = 'EIO' | 'ENOSPC' | 'EMFILE';

export interface Fault {
  /** Number of the operation that fails; operations are counted from 1. */
  readonly at: number;
  readonly code: FaultCode;
  /** False: it and every later one of its kind, until `heal`. */
  readonly once: boolean;
  /** A write that fails has written a part of its bytes. */
  readonly short?: boolean;
}

const TAKES_ROOM: readonly Operation[] = [
  'create',
  'update',
  'link',
  'rename',
  'makeDirectory',
  'write',
  'truncate',
  'sync',
];
const OPENS: readonly Operation[] = ['create', 'open', 'update', 'list', 'syncDirectory'];
/** Plenty: what a full disk does is told by faults. */
const ROOM_BYTES = 2 ** 50;

export class DiskStopped extends Error {
  readonly code = 'STOPPED';
}

export class SimulatedDisk implements Disk {
  readonly #root: string;
  readonly #folders = new Map<string, SimulatedFolder>();
  #fault: Fault | undefined;
  #stopped = false;
  /** Operations begun. */
  operations = 0;
  /** Files that are open. */
  openFiles = 0;
  /** What failed, as `operation path`. */
  readonly failures: string[] = [];
  /** Called before and after each operation has its effect. */
  onPoint: (when: 'before' | 'after', what: string) => void = () => undefined;

  /** Paths begin with `root`, a folder that is there for good. */
  constructor(root: string) {
    this.#root = root;
    this.#folders.set(root, new SimulatedFolder(true));
  }

  /** What is found after a crash at this moment, as a disk of the given root. */
  crash(mode: CrashMode, random: Random, root = this.#root): SimulatedDisk {
    const disk = new SimulatedDisk(root);
    const carry: Carry = {
      node: once((node: SimulatedNode) => {
        if (isLink(node)) return node;
        return mode === 'killed' ? node.copy() : node.survivor(mode, random);
      }),
      move: once((move: Move) => ({ ...move })),
      hasArrived: once((move: Move) => {
        if (move.hasArrived || mode === 'kept') return true;
        return mode !== 'lost' && random.below(2) === 0;
      }),
    };
    for (const [path, folder] of this.#folders) {
      const happened = mode === 'killed' || mode === 'kept' || random.below(2) === 0;
      if (!folder.isDurable && !happened) continue;
      if (!folder.isDurable && mode === 'lost') continue;
      const above = root + posix.dirname(path).slice(this.#root.length);
      if (path !== this.#root && !disk.#folders.has(above)) continue;
      disk.#folders.set(
        root + path.slice(this.#root.length),
        mode === 'killed' ? folder.copy(carry) : folder.survivor(mode, random, carry),
      );
    }
    return disk;
  }

  stop(): void {
    this.#stopped = true;
  }

  fail(fault: Fault): void {
    this.#fault = fault;
  }

  heal(): void {
    this.#fault = undefined;
  }

  /** True while operations fail, or a coming one is going to. */
  get isFailing(): boolean {
    return this.#fault !== undefined;
  }

  /** Names and bytes of all files (of links: what they lead to), for comparing disks. */
  contents(): [string, Buffer][] {
    const found: [string, Buffer][] = [];
    for (const [path, folder] of this.#folders) {
      for (const name of folder.names()) {
        const place = `${path.slice(this.#root.length)}/${name}`;
        const node = folder.node(name)!;
        found.push([place, isLink(node) ? Buffer.from(node.target) : node.bytes()]);
      }
    }
    return found.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  create(path: string): Promise<DiskFile> {
    return this.#operate('create', path, () => {
      const { folder, name } = this.#place(path);
      if (folder.node(name)) throw systemError('EEXIST', path);
      const file = new SimulatedFile();
      folder.add(name, file);
      return this.#open(file, path);
    });
  }

  openToRead(path: string): Promise<DiskFile> {
    return this.#operate('open', path, () => this.#open(this.#file(path), path));
  }

  openToUpdate(path: string): Promise<DiskFile> {
    return this.#operate('update', path, () => {
      const { folder, name } = this.#place(path);
      if (!folder.node(name)) folder.add(name, new SimulatedFile());
      return this.#open(this.#file(path), path);
    });
  }

  makeLink(target: string, path: string): Promise<void> {
    return this.#operate('link', path, () => {
      const { folder, name } = this.#place(path);
      if (folder.node(name)) throw systemError('EEXIST', path);
      folder.add(name, { target, mtimeSeconds: 0 });
    });
  }

  readLink(path: string): Promise<DiskLink> {
    return this.#operate('readLink', path, (): SimulatedLink => {
      const node = this.#node(path);
      if (!isLink(node)) throw systemError('EINVAL', path);
      return node;
    });
  }

  rename(from: string, to: string): Promise<void> {
    return this.#operate('rename', from, () => {
      this.#node(from);
      const { folder, name } = this.#place(from);
      const other = this.#place(to);
      if (other.folder === folder) folder.rename(name, other.name);
      else folder.moveTo(other.folder, name, other.name);
    });
  }

  unlink(path: string): Promise<void> {
    return this.#operate('unlink', path, () => {
      this.#node(path);
      const { folder, name } = this.#place(path);
      folder.remove(name);
    });
  }

  exists(path: string): Promise<boolean> {
    return this.#operate('exists', path, () => {
      const folder = this.#folders.get(posix.dirname(path));
      return this.#folders.has(path) || folder?.node(posix.basename(path)) !== undefined;
    });
  }

  makeDirectory(path: string): Promise<void> {
    return this.#operate('makeDirectory', path, () => {
      const missing: string[] = [];
      for (let each = path; !this.#folders.has(each); each = posix.dirname(each)) {
        if (!each.startsWith(`${this.#root}/`)) throw systemError('ENOENT', path);
        missing.unshift(each);
      }
      for (const each of missing) this.#folders.set(each, new SimulatedFolder(false));
    });
  }

  list(path: string): Promise<string[]> {
    return this.#operate('list', path, () => this.#folders.get(path)?.names() ?? []);
  }

  syncDirectory(path: string): Promise<void> {
    return this.#operate('syncDirectory', path, () => {
      const folder = this.#folders.get(path);
      if (!folder) throw systemError('ENOENT', path);
      folder.sync();
      for (const [inner, { isDurable }] of this.#folders) {
        if (!isDurable && posix.dirname(inner) === path) this.#folders.get(inner)!.isDurable = true;
      }
    });
  }

  async space(): Promise<DiskSpace> {
    return { totalBytes: ROOM_BYTES, freeBytes: ROOM_BYTES };
  }

  #open(file: SimulatedFile, path: string): DiskFile {
    this.openFiles += 1;
    let isOpen = true;
    const operate = <T>(kind: Operation, action: () => T, onFault?: (short: boolean) => void) =>
      this.#operate(
        kind,
        path,
        () => {
          if (!isOpen) throw systemError('EBADF', path);
          return action();
        },
        onFault,
      );
    return {
      writeAt: (chunks, position) => {
        // What the caller does to its buffers later is no concern of the disk's.
        const bytes = Buffer.concat(chunks);
        const write = () => file.write(bytes, position);
        const part = bytes.subarray(0, Math.ceil(bytes.length / 2));
        return operate('write', write, (short) => short && file.write(part, position));
      },
      // Two operations: the machine may stop between them.
      writeDurablyAt: async (chunks, position) => {
        const bytes = Buffer.concat(chunks);
        const write = () => file.write(bytes, position);
        const part = bytes.subarray(0, Math.ceil(bytes.length / 2));
        await operate('write', write, (short) => short && file.write(part, position));
        const sync = () => file.syncLast(position);
        await operate('sync', sync, () => file.failSyncLast(position));
      },
      readAt: (target, position) => operate('read', () => file.read(target, position)),
      stat: () =>
        operate('stat', () => ({
          size: file.size,
          mtimeSeconds: file.mtimeSeconds,
          isFile: true,
        })),
      setModified: (seconds) =>
        operate('touch', () => {
          file.mtimeSeconds = seconds;
        }),
      truncate: (size) => operate('truncate', () => file.truncate(size)),
      sync: () =>
        operate(
          'sync',
          () => file.sync(),
          () => file.failSync(),
        ),
      close: async () => {
        if (this.#stopped) return;
        if (!isOpen) throw systemError('EBADF', path);
        isOpen = false;
        this.openFiles -= 1;
      },
    };
  }

  async #operate<T>(
    kind: Operation,
    path: string,
    action: () => T,
    onFault: (short: boolean) => void = () => undefined,
  ): Promise<T> {
    if (this.#stopped) throw new DiskStopped(`${kind} ${path}`);
    this.operations += 1;
    const what = `${kind} ${path.slice(this.#root.length)}`;
    this.onPoint('before', what);
    const fault = this.#faultOf(kind);
    if (fault) {
      this.failures.push(what);
      onFault(fault.short ?? false);
      await nextTurn();
      throw systemError(fault.code, what);
    }
    const result = action();
    this.onPoint('after', what);
    await nextTurn();
    if (this.#stopped) throw new DiskStopped(what);
    return result;
  }

  #faultOf(kind: Operation): Fault | undefined {
    const fault = this.#fault;
    if (!fault || this.operations < fault.at || !canFail(kind, fault.code)) return undefined;
    if (fault.once) {
      this.#fault = undefined;
      if (this.operations > fault.at) return undefined;
    }
    return fault;
  }

  #place(path: string): { folder: SimulatedFolder; name: string } {
    const folder = this.#folders.get(posix.dirname(path));
    if (!folder) throw systemError('ENOENT', path);
    return { folder, name: posix.basename(path) };
  }

  #node(path: string): SimulatedNode {
    const { folder, name } = this.#place(path);
    const node = folder.node(name);
    if (!node) throw systemError(this.#folders.has(path) ? 'EISDIR' : 'ENOENT', path);
    return node;
  }

  #file(path: string): SimulatedFile {
    const node = this.#node(path);
    if (isLink(node)) throw systemError('ELOOP', path);
    return node;
  }
}

export function digestOf(disk: SimulatedDisk): string {
  const hash = createHash('sha1');
  for (const [name, bytes] of disk.contents()) hash.update(name).update(bytes);
  return hash.digest('hex');
}

/** True if the system can answer such an operation with the code. */
export function canFail(kind: Operation, code: FaultCode): boolean {
  if (code === 'EIO') return true;
  return (code === 'ENOSPC' ? TAKES_ROOM : OPENS).includes(kind);
}

function systemError(code: string, what: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: ${what}`), { code });
}

/** The function, asked once for each thing. */
function once<Thing, Made>(make: (thing: Thing) => Made): (thing: Thing) => Made {
  const made = new Map<Thing, Made>();
  return (thing) => {
    const found = made.get(thing);
    if (found !== undefined) return found;
    const fresh = make(thing);
    made.set(thing, fresh);
    return fresh;
  };
}
