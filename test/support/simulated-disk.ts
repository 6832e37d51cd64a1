import { posix } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Disk, DiskFile } from '@stevedore/staging';
import type { Random } from './random.js';
import { type CrashMode, SimulatedFile } from './simulated-file.js';
import { type Carry, SimulatedFolder } from './simulated-folder.js';

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
  | 'list'
  | 'makeFolder'
  | 'readText'
  | 'rename'
  | 'remove'
  | 'syncFolder'
  | 'write'
  | 'read'
  | 'size'
  | 'truncate'
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

const TAKES_ROOM: readonly Operation[] = ['create', 'makeFolder', 'rename', 'write', 'sync'];
const OPENS: readonly Operation[] = ['create', 'open', 'list', 'readText', 'syncFolder'];

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
    const carry = once((file) => (mode === 'killed' ? file.copy() : file.survivor(mode, random)));
    for (const [path, folder] of this.#folders) {
      const happened = mode === 'killed' || mode === 'kept' || random.below(2) === 0;
      if (!folder.isDurable && !happened) continue;
      if (!folder.isDurable && mode === 'lost') continue;
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

  /** Makes everything durable, as a system does that goes on running. */
  syncAll(): void {
    for (const folder of this.#folders.values()) {
      folder.isDurable = true;
      folder.sync();
      for (const name of folder.names()) folder.file(name)!.writeBack();
    }
  }

  /** Names and bytes of all files, for comparing disks. */
  contents(): [string, Buffer][] {
    const found: [string, Buffer][] = [];
    for (const [path, folder] of this.#folders) {
      for (const name of folder.names()) {
        const place = `${path.slice(this.#root.length)}/${name}`;
        found.push([place, folder.file(name)!.bytes()]);
      }
    }
    return found.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  create(path: string): Promise<DiskFile> {
    return this.#operate('create', path, () => {
      const { folder, name } = this.#place(path);
      if (folder.file(name)) throw systemError('EEXIST', path);
      const file = new SimulatedFile();
      folder.add(name, file);
      return this.#open(file, path);
    });
  }

  openForReading(path: string): Promise<DiskFile> {
    return this.#operate('open', path, () => this.#open(this.#file(path), path));
  }

  list(path: string): Promise<string[]> {
    return this.#operate('list', path, () => this.#folders.get(path)?.names() ?? []);
  }

  makeFolder(path: string): Promise<void> {
    return this.#operate('makeFolder', path, () => {
      if (!this.#folders.has(posix.dirname(path))) throw systemError('ENOENT', path);
      if (!this.#folders.has(path)) this.#folders.set(path, new SimulatedFolder(false));
    });
  }

  readText(path: string): Promise<string | undefined> {
    return this.#operate('readText', path, () => {
      const { folder, name } = this.#place(path);
      return folder.file(name)?.text();
    });
  }

  rename(from: string, to: string): Promise<void> {
    return this.#operate('rename', from, () => {
      this.#file(from);
      const { folder, name } = this.#place(from);
      if (this.#place(to).folder !== folder) throw systemError('EXDEV', from);
      folder.rename(name, posix.basename(to));
    });
  }

  remove(path: string): Promise<void> {
    return this.#operate('remove', path, () => {
      const { folder, name } = this.#place(path);
      folder.remove(name);
    });
  }

  syncFolder(path: string): Promise<void> {
    return this.#operate('syncFolder', path, () => {
      const folder = this.#folders.get(path);
      if (!folder) throw systemError('ENOENT', path);
      folder.sync();
      for (const [inner, { isDurable }] of this.#folders) {
        if (!isDurable && posix.dirname(inner) === path) this.#folders.get(inner)!.isDurable = true;
      }
    });
  }

  async freeBytes(): Promise<number> {
    return Number.MAX_SAFE_INTEGER;
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
      write: (buffers, position) => {
        // What the caller does to its buffers later is no concern of the disk's.
        const bytes = Buffer.concat(buffers);
        const write = () => file.write(bytes, position);
        const part = bytes.subarray(0, Math.ceil(bytes.length / 2));
        return operate('write', write, (short) => short && file.write(part, position));
      },
      read: (target, position) => operate('read', () => file.read(target, position)),
      size: () => operate('size', () => file.size),
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

  #file(path: string): SimulatedFile {
    const { folder, name } = this.#place(path);
    const file = folder.file(name);
    if (!file) throw systemError('ENOENT', path);
    return file;
  }
}

/** True if the system can answer such an operation with the code. */
export function canFail(kind: Operation, code: FaultCode): boolean {
  if (code === 'EIO') return true;
  return (code === 'ENOSPC' ? TAKES_ROOM : OPENS).includes(kind);
}

function systemError(code: string, what: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: ${what}`), { code });
}

function once(make: Carry): Carry {
  const made = new Map<SimulatedFile, SimulatedFile>();
  return (file) => {
    const found = made.get(file) ?? make(file);
    made.set(file, found);
    return found;
  };
}
