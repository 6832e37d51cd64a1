import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, type DiskFile, type DiskLink, type DiskSpace, hasCode } from '@stevedore/disk';
import { METADATA_SUFFIX } from '../storage/layout.js';
import { BufferFile } from './buffer-file.js';
import { ChangedFile } from './changed-file.js';
import { ChangedRow } from './changed-row.js';
import { Place } from './constants.js';
import { type NameInStore, nameInStore } from './names.js';
import type { FileRecord } from './record-row.js';
import { SpillingFile } from './spilling-file.js';
import type { Tier } from './tier.js';
import { TouchedDirectories } from './touched-directories.js';

/**
 * A disk whose small files are rows. The storage above works with paths and knows nothing
 * of it: a file that is written under a temporary name and renamed becomes a row if it is
 * small, its metadata a column of that row; everything else, and every file that was there
 * before, is a file on the disk below. A file whose bytes are in another group is read
 * there, and a change brings them home. What the disk promises holds for rows too: a sync
 * of the directory makes names and rows durable.
 */

export interface TieredDiskParts {
  readonly disk: Disk;
  readonly tiers: readonly Tier[];
  /** Th_global: the largest file that becomes a row; undefined: none does. */
  readonly thresholdBytes: () => number | undefined;
  /** Eq. 14: the largest that a file which has moved so often may grow to in its row. */
  readonly fileThresholdBytes: (moves: number) => number;
  readonly nowSeconds: () => number;
  /** Bytes of a row are written; `isNew`: the row was made with them. */
  readonly onAccess: (path: string, bytes: number, size: number, isNew: boolean) => void;
  /** A file was cut and may be small enough for a row now. */
  readonly onCut: (tier: Tier, name: string, size: number) => void;
  /** A file has outgrown its row and is a file of its own now. */
  readonly onGrown: (tier: Tier, name: string, size: number) => void;
}

type Located = NameInStore & { readonly tier: Tier };

export class TieredDisk implements Disk {
  readonly #parts: TieredDiskParts;
  readonly #newFiles = new Map<string, SpillingFile>();
  readonly #touched: TouchedDirectories;

  constructor(parts: TieredDiskParts) {
    this.#parts = parts;
    this.#touched = new TouchedDirectories(parts.disk);
  }

  async create(path: string): Promise<DiskFile> {
    const { disk, thresholdBytes, nowSeconds } = this.#parts;
    const limitBytes = thresholdBytes();
    const at = this.#locate(path);
    if (limitBytes === undefined || at?.kind !== 'temporary') return disk.create(path);
    const file = new SpillingFile({ disk, path, limitBytes, mtimeSeconds: nowSeconds() });
    this.#newFiles.set(path, file);
    return file;
  }

  async openToRead(path: string): Promise<DiskFile> {
    const at = this.#locate(path);
    if (at?.kind === 'metadata') {
      const record = at.tier.records.find(at.name);
      if (!record) return this.#parts.disk.openToRead(path);
      const metadata = at.tier.records.metadata(at.name);
      if (!metadata) throw missing(path);
      return new BufferFile(metadata, record.mtimeSeconds);
    }
    const found = at?.kind === 'file' ? at.tier.records.findContent(at.name) : undefined;
    if (at && found?.record.place === Place.away) return at.tier.openAway(found.record);
    if (found?.record.place !== Place.row) return this.#parts.disk.openToRead(path);
    const { record, bytes } = found;
    return new BufferFile(soundBytes(record, bytes, path), record.mtimeSeconds);
  }

  async openToUpdate(path: string): Promise<DiskFile> {
    const at = this.#locate(path);
    if (at?.kind !== 'file') return this.#parts.disk.openToUpdate(path);
    const done = await at.tier.beginChange(at.name);
    try {
      return await this.#openToChange(at.tier, at.name, path, done);
    } catch (error) {
      done();
      throw error;
    }
  }

  /** What is in another group comes home: as a row if it is small enough for one, with the change. */
  async #openToChange(tier: Tier, name: string, path: string, done: () => void): Promise<DiskFile> {
    const { disk, fileThresholdBytes, onCut, onGrown, onAccess } = this.#parts;
    const found = tier.records.findContent(name);
    const record = found?.record;
    const limitBytes = fileThresholdBytes(record?.moves ?? 0);
    const isSmall = record?.place === Place.away && record.size <= limitBytes;
    if (record?.place === Place.row || isSmall) {
      const bytes = isSmall
        ? await contentOf(tier.openAway(record))
        : soundBytes(record, found?.bytes, path);
      onAccess(path, bytes.length, bytes.length, false);
      // A file that came home to be changed stays: it would come home with every change.
      const grown = (size: number): void => {
        if (!isSmall) onGrown(tier, name, size);
      };
      return new ChangedRow({ tier, disk, record, bytes, limitBytes, done, onGrown: grown });
    }
    if (record?.place === Place.away) await tier.bringHome(record);
    const file = await disk.openToUpdate(path);
    return new ChangedFile({ file, onCut: (size) => onCut(tier, name, size), done });
  }

  makeLink(target: string, path: string): Promise<void> {
    this.#touched.add(path);
    return this.#parts.disk.makeLink(target, path);
  }

  async readLink(path: string): Promise<DiskLink> {
    const at = this.#locate(path);
    if (at?.kind === 'file' && !isOnDisk(at.tier.records.find(at.name))) {
      throw failure('EINVAL', `${path} is no link`);
    }
    return this.#parts.disk.readLink(path);
  }

  async rename(from: string, to: string): Promise<void> {
    const source = this.#locate(from);
    const target = this.#locate(to);
    const file = this.#newFiles.get(from);
    if (file) {
      await this.#appear(file, from, target, to);
      this.#newFiles.delete(from);
      return;
    }
    if (source?.kind === 'file' && target?.kind === 'file') {
      const done = await source.tier.beginChange(source.name);
      try {
        await this.#renameStored(source, from, target, to);
      } finally {
        done();
      }
      return;
    }
    this.#touched.add(from);
    this.#touched.add(to);
    await this.#parts.disk.rename(from, to);
  }

  async unlink(path: string): Promise<void> {
    const { disk } = this.#parts;
    const at = this.#locate(path);
    const file = this.#newFiles.get(path);
    if (file) {
      this.#newFiles.delete(path);
      if (!file.memory) await disk.unlink(path);
      return;
    }
    if (at?.kind === 'metadata') return this.#unlinkMetadata(at, path);
    if (at?.kind !== 'file') return disk.unlink(path);
    const done = await at.tier.beginChange(at.name);
    try {
      const record = at.tier.records.find(at.name);
      if (isOnDisk(record)) {
        this.#touched.add(path);
        await disk.unlink(path);
      }
      if (record) at.tier.remove(record);
    } finally {
      done();
    }
  }

  async exists(path: string): Promise<boolean> {
    const at = this.#locate(path);
    if (this.#newFiles.has(path)) return true;
    if (at?.kind === 'metadata' && at.tier.records.find(at.name)) {
      return at.tier.records.hasMetadata(at.name);
    }
    if (at?.kind === 'file' && !isOnDisk(at.tier.records.find(at.name))) return true;
    return this.#parts.disk.exists(path);
  }

  makeDirectory(path: string): Promise<void> {
    return this.#parts.disk.makeDirectory(path);
  }

  async syncDirectory(path: string): Promise<void> {
    const at = this.#locate(path);
    if (at?.kind !== 'directory') {
      for (const [temporary, file] of this.#newFiles) {
        if (dirname(temporary) === path) await file.keep();
      }
      return this.#parts.disk.syncDirectory(path);
    }
    await Promise.all([at.tier.records.commit(), this.#touched.sync(path)]);
  }

  async list(path: string): Promise<string[]> {
    const names = await this.#parts.disk.list(path);
    const at = this.#locate(path);
    if (at?.kind !== 'directory') return names;
    const rows = at.tier.records
      .list(at.prefix)
      .flatMap(({ name, hasMetadata }) => (hasMetadata ? [name, name + METADATA_SUFFIX] : [name]));
    return [...new Set([...names, ...rows])];
  }

  space(path: string): Promise<DiskSpace> {
    return this.#parts.disk.space(path);
  }

  /** What was written under a temporary name gets one that stays. */
  async #appear(
    file: SpillingFile,
    from: string,
    target: Located | undefined,
    to: string,
  ): Promise<void> {
    const { disk, onAccess } = this.#parts;
    const { memory, mtimeSeconds } = file;
    if (target?.kind === 'file') {
      const done = await target.tier.beginChange(target.name);
      try {
        if (memory) {
          await target.tier.replaceByRow(target.name, { bytes: memory, mtimeSeconds });
          onAccess(to, memory.length, memory.length, true);
        } else {
          this.#touched.add(to);
          await target.tier.becomeFile(target.name, from, mtimeSeconds);
        }
      } finally {
        done();
      }
      return;
    }
    if (target?.kind === 'metadata' && target.tier.records.find(target.name)) {
      const bytes = memory ?? (await this.#takeIn(from));
      target.tier.records.setMetadata(target.name, bytes);
      return;
    }
    if (memory) await file.spill();
    this.#touched.add(to);
    await disk.rename(from, to);
  }

  async #renameStored(
    source: Located & { readonly name: string },
    from: string,
    target: Located & { readonly name: string },
    to: string,
  ): Promise<void> {
    const { records } = source.tier;
    const record = records.find(source.name);
    if (!isOnDisk(record)) {
      const replaced = records.find(target.name);
      if (replaced) source.tier.remove(replaced);
      records.rename(source.name, target.name);
      return;
    }
    // First the new record, so that a crash leaves no file without its metadata; a record
    // without a file does no harm.
    if (record) {
      records.copy(source.name, target.name);
      await records.commit();
    }
    this.#touched.add(from);
    this.#touched.add(to);
    await this.#parts.disk.rename(from, to);
    if (record) records.remove(source.name);
  }

  async #unlinkMetadata(at: Located & { readonly name: string }, path: string): Promise<void> {
    if (at.tier.records.find(at.name)) {
      at.tier.records.setMetadata(at.name, undefined);
      return;
    }
    try {
      this.#touched.add(path);
      await this.#parts.disk.unlink(path);
    } catch (error) {
      // It went with the record of its file.
      if (!hasCode(error, 'ENOENT')) throw error;
    }
  }

  /** The bytes of a file below, which is removed. */
  async #takeIn(path: string): Promise<Buffer> {
    const { disk } = this.#parts;
    try {
      return await contentOf(await disk.openToRead(path));
    } finally {
      await disk.unlink(path);
    }
  }

  #locate(path: string): Located | undefined {
    for (const tier of this.#parts.tiers) {
      if (path.startsWith(tier.data)) return { ...nameInStore(tier.data, path), tier };
    }
    return undefined;
  }
}

/** True where the bytes are not, or not known to be, elsewhere. */
function isOnDisk(record: FileRecord | undefined): boolean {
  return record === undefined || record.place === Place.file;
}

/** The bytes of a row, if they are what its record says. */
function soundBytes(record: FileRecord, bytes: Buffer | undefined, path: string): Buffer {
  if (!bytes || bytes.length !== record.size || crc32(bytes) !== record.crc32) {
    throw failure('EIO', `the row of ${path} is damaged`);
  }
  return bytes;
}

/** All bytes of a file, which is closed. */
async function contentOf(file: DiskFile): Promise<Buffer> {
  try {
    const bytes = Buffer.allocUnsafe((await file.stat()).size);
    await file.readAt(bytes, 0);
    return bytes;
  } finally {
    await file.close();
  }
}

function missing(path: string): Error {
  return failure('ENOENT', `no such file: ${path}`);
}

function failure(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
