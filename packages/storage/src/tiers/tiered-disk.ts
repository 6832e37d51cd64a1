import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, type DiskFile, type DiskLink, type DiskSpace, hasCode } from '@stevedore/disk';
import { isPieceName, METADATA_SUFFIX } from '../storage/layout.js';
import { BufferFile } from './buffer-file.js';
import { ChangedDataFile, ChangedRow, ChangedStripes } from './changed-files.js';
import { Place } from './constants.js';
import { GuestFile } from './guest-file.js';
import { isAppender, type NameInStore, nameInStore } from './names.js';
import { NewFile } from './new-file.js';
import type { FileRecord } from './record-row.js';
import type { Tier } from './tier.js';

/**
 * A disk whose small files are rows, and whose large ones are on I/O servers if there are
 * any. The storage above works with paths and knows nothing of it: a file that is written
 * under a temporary name and renamed becomes a row if it is small, its metadata a column
 * of that row; everything else, and every file that was there before, is a file on the
 * disk below. What the disk promises holds
 * for rows too: a sync of the directory makes names and rows durable.
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
  /** A data file was cut and may be small enough for a row now. */
  readonly onCut: (tier: Tier, name: string, size: number) => void;
}

type Located = NameInStore & { readonly tier: Tier };

export class TieredDisk implements Disk {
  readonly #parts: TieredDiskParts;
  readonly #newFiles = new Map<string, NewFile>();
  /** Directories of stored files in which something has changed on the disk below. */
  readonly #touched = new Set<string>();
  /** Syncs of such directories that are under way. */
  readonly #syncs = new Map<string, Promise<void>>();

  constructor(parts: TieredDiskParts) {
    this.#parts = parts;
  }

  async create(path: string): Promise<DiskFile> {
    const { disk, thresholdBytes, nowSeconds } = this.#parts;
    const limitBytes = thresholdBytes();
    const at = this.#locate(path);
    if (limitBytes === undefined || at?.kind !== 'temporary') return disk.create(path);
    const now = nowSeconds();
    const file = new NewFile({
      disk,
      path,
      limitBytes,
      nowSeconds: now,
      // The journal speaks of a piece by its name on this disk.
      beginDataFile: () =>
        isPieceName(path) ? undefined : at.tier.dataFiles?.begin({ mtimeSeconds: now }),
    });
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
    const record = at?.kind === 'file' ? at.tier.records.find(at.name) : undefined;
    if (at && record?.place === Place.servers) return at.tier.readDataFile(record);
    if (at && record?.place === Place.guest) {
      return new GuestFile(record.size, record.mtimeSeconds, () => at.tier.readGuest(record));
    }
    if (!at || record?.place !== Place.row) return this.#parts.disk.openToRead(path);
    return new BufferFile(this.#bytesOf(at.tier, record, path), record.mtimeSeconds);
  }

  async openToUpdate(path: string): Promise<DiskFile> {
    const { disk, fileThresholdBytes, onCut, onAccess } = this.#parts;
    const at = this.#locate(path);
    if (at?.kind !== 'file') return disk.openToUpdate(path);
    const { tier, name } = at;
    const done = await tier.beginChange(name);
    try {
      const record = tier.records.find(name);
      if (record?.place === Place.row || record?.place === Place.guest) {
        // A change brings the bytes home: nobody else ever changes them.
        const isHere = record.place === Place.row;
        const bytes = isHere ? this.#bytesOf(tier, record, path) : await tier.readGuest(record);
        onAccess(path, bytes.length, bytes.length, false);
        const limitBytes = fileThresholdBytes(record.moves);
        return new ChangedRow({ tier, disk, record, bytes, limitBytes, done });
      }
      if (record?.place === Place.servers) {
        const file = tier.changeDataFile(record);
        const cut = (size: number): void => onCut(tier, name, size);
        return new ChangedStripes({ tier, name, file, onCut: cut, done });
      }
      const file = await disk.openToUpdate(path);
      return new ChangedDataFile({ file, onCut: (size) => onCut(tier, name, size), done });
    } catch (error) {
      done();
      throw error;
    }
  }

  makeLink(target: string, path: string): Promise<void> {
    this.#touch(path);
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
        const replaced = await target.tier.answerAlone(target.name);
        try {
          await this.#renameStored(source, from, target, to);
        } finally {
          replaced();
        }
      } finally {
        done();
      }
      return;
    }
    this.#touch(from);
    this.#touch(to);
    await this.#parts.disk.rename(from, to);
  }

  async unlink(path: string): Promise<void> {
    const { disk } = this.#parts;
    const at = this.#locate(path);
    const file = this.#newFiles.get(path);
    if (file) {
      this.#newFiles.delete(path);
      if (file.dataFile) await file.dataFile.close();
      else if (!file.memory) await disk.unlink(path);
      return;
    }
    if (at?.kind === 'metadata') return this.#unlinkMetadata(at, path);
    if (at?.kind !== 'file') return disk.unlink(path);
    const done = await at.tier.beginChange(at.name);
    try {
      const record = at.tier.records.find(at.name);
      if (isOnDisk(record)) {
        this.#touch(path);
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
    await Promise.all([at.tier.records.commit(), this.#syncTouched(path)]);
  }

  /** Syncs the directory below if anything changed in it; waits for whoever does already. */
  async #syncTouched(path: string): Promise<void> {
    const underWay = this.#syncs.get(path);
    if (!this.#touched.delete(path)) return underWay;
    const sync = Promise.all([underWay, this.#parts.disk.syncDirectory(path)]).then(() => {});
    this.#syncs.set(path, sync);
    try {
      await sync;
    } finally {
      if (this.#syncs.get(path) === sync) this.#syncs.delete(path);
    }
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
    file: NewFile,
    from: string,
    target: Located | undefined,
    to: string,
  ): Promise<void> {
    const { disk, onAccess } = this.#parts;
    const { memory, mtimeSeconds } = file;
    if (target?.kind === 'file') {
      const done = await target.tier.beginChange(target.name);
      try {
        if (file.dataFile) {
          await target.tier.becomeDataFile(target.name, file.dataFile);
        } else if (memory) {
          await target.tier.becomeRow(target.name, { bytes: memory, mtimeSeconds });
          this.#prepareToGrow(target.tier, target.name, memory.length);
          onAccess(to, memory.length, memory.length, true);
        } else {
          this.#touch(to);
          await target.tier.becomeFile(target.name, from, mtimeSeconds);
        }
      } finally {
        done();
      }
      return;
    }
    if (target?.kind === 'metadata' && target.tier.records.find(target.name)) {
      const bytes = file.dataFile ? await contentOf(file.dataFile) : memory;
      await this.#setMetadata(target.tier, target.name, bytes ?? (await this.#takeIn(from)));
      return;
    }
    if (file.dataFile) await copyToDisk(file.dataFile, disk, from, mtimeSeconds);
    else if (memory) await file.spill();
    this.#touch(to);
    await disk.rename(from, to);
  }

  /** An appender may be about to outgrow its row from the beginning. */
  #prepareToGrow(tier: Tier, name: string, size: number): void {
    if (isAppender(name)) tier.prepareToGrow(name, size, this.#parts.fileThresholdBytes(0));
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
      source.tier.dataFiles?.ahead.drop(source.name);
      records.rename(source.name, target.name);
      return;
    }
    // First the new record, so that a crash leaves no file without its metadata; a record
    // without a file is nobody's.
    if (record) {
      records.copy(source.name, target.name);
      await records.commit();
    }
    this.#touch(from);
    this.#touch(to);
    await this.#parts.disk.rename(from, to);
    if (record) records.remove(source.name);
  }

  async #unlinkMetadata(at: Located & { readonly name: string }, path: string): Promise<void> {
    if (at.tier.records.find(at.name)) return this.#setMetadata(at.tier, at.name, undefined);
    try {
      this.#touch(path);
      await this.#parts.disk.unlink(path);
    } catch (error) {
      // It went with the record of its file.
      if (!hasCode(error, 'ENOENT')) throw error;
    }
  }

  async #setMetadata(tier: Tier, name: string, metadata: Buffer | undefined): Promise<void> {
    const release = await tier.answerAlone(name);
    try {
      tier.records.setMetadata(name, metadata);
    } finally {
      release();
    }
  }

  /** The bytes of a file below, which is removed. */
  async #takeIn(path: string): Promise<Buffer> {
    const { disk } = this.#parts;
    const file = await disk.openToRead(path);
    try {
      const bytes = Buffer.allocUnsafe((await file.stat()).size);
      await file.readAt(bytes, 0);
      return bytes;
    } finally {
      await file.close();
      await disk.unlink(path);
    }
  }

  #bytesOf(tier: Tier, record: FileRecord, path: string): Buffer {
    const bytes = tier.records.bytes(record.name);
    if (!bytes || bytes.length !== record.size || crc32(bytes) !== record.crc32) {
      throw failure('EIO', `the row of ${path} is damaged`);
    }
    return bytes;
  }

  #touch(path: string): void {
    this.#touched.add(dirname(path));
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

/** The bytes of a data file that nobody needs afterwards. */
async function contentOf(file: DiskFile): Promise<Buffer> {
  try {
    const bytes = Buffer.allocUnsafe((await file.stat()).size);
    await file.readAt(bytes, 0);
    return bytes;
  } finally {
    await file.close();
  }
}

/** For what is no stored file after all. */
async function copyToDisk(
  from: DiskFile,
  disk: Disk,
  path: string,
  mtimeSeconds: number,
): Promise<void> {
  const bytes = await contentOf(from);
  const to = await disk.create(path);
  try {
    await to.writeAt([bytes], 0);
    await to.setModified(mtimeSeconds);
    await to.sync();
  } finally {
    await to.close();
  }
}

function missing(path: string): Error {
  return failure('ENOENT', `no such file: ${path}`);
}

function failure(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
