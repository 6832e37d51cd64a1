import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Disk, type DiskFile, decoratedDisk, decoratedFile, localDisk } from '@stevedore/disk';

/** The disk of this machine, with places that it does not give: reading any byte of one is EIO. */
export class BadSectors {
  readonly #bad: { readonly path: string; readonly start: number; readonly end: number }[] = [];
  /** Reads that failed. */
  failed = 0;
  /** So many coming reads of bad places fail; then the disk gives them again. */
  left = Number.POSITIVE_INFINITY;
  /** Directories cannot be synced either: the disk fails as a whole. */
  isGone = false;
  /** Code of the failures. */
  code = 'EIO';

  readonly disk: Disk;

  constructor() {
    const syncDirectory = async (path: string): Promise<void> => {
      if (this.isGone) throw this.#failure();
      return localDisk.syncDirectory(path);
    };
    this.disk = decoratedDisk(localDisk, { syncDirectory }, (file, path) => this.#wrap(file, path));
  }

  /** The `count` bytes from `from` on of these, where they stand in one of the folder's files. */
  spoil(folder: string, bytes: Buffer, from = 0, count = bytes.length - from): void {
    for (const name of readdirSync(folder)) {
      const path = join(folder, name);
      const at = readFileSync(path).indexOf(bytes);
      if (at < 0) continue;
      this.#bad.push({ path, start: at + from, end: at + from + count });
      return;
    }
    throw new Error('the bytes are in none of the files');
  }

  heal(): void {
    this.#bad.splice(0);
  }

  #wrap(file: DiskFile, path: string): DiskFile {
    const isBad = (from: number, to: number) =>
      this.#bad.some((bad) => bad.path === path && bad.start < to && from < bad.end);
    const changed: Partial<DiskFile> = {
      readAt: async (target, position) => {
        if (this.left > 0 && isBad(position, position + target.length)) {
          this.failed += 1;
          this.left -= 1;
          throw this.#failure();
        }
        return file.readAt(target, position);
      },
    };
    return decoratedFile(file, changed);
  }

  #failure(): Error {
    return Object.assign(new Error(`${this.code}: the disk does not answer`), { code: this.code });
  }
}
