import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Disk, DiskFile, DiskLink } from '@stevedore/disk';
import {
  type FileBackend,
  filesOnDisk,
  METADATA_SUFFIX,
  type NewFile,
  type ReadableFile,
  readInto,
  type StoredMetadata,
  TEMPORARY_DIRECTORY,
} from '@stevedore/storage';
import { ChangedRow, changedFile, SpillingFile } from './changed-files.js';
import { type FileRecord, Place } from './record-rows.js';
import { rowFile } from './remote-files.js';
import type { Tier } from './tier.js';
import type { Tiers } from './tiers.js';

/**
 * Keeps small files as rows with their metadata. Larger files, and files from before the tier, are
 * on disk. Content in another group is read there; a change brings it home.
 */

export interface TieredFilesParts {
  readonly disk: Disk;
  readonly tiers: Tiers;
  readonly nowSeconds: () => number;
  /** Bytes of a row were written; `isNew`: the row was made with them. */
  readonly onAccess: (path: string, bytes: number, size: number, isNew: boolean) => void;
  /** A file was truncated and may fit a row now. */
  readonly onCut: (tier: Tier, name: string, size: number) => void;
  /** A file outgrew its row and is a file on disk now. */
  readonly onGrown: (tier: Tier, name: string, size: number) => void;
}

export class TieredFiles implements FileBackend {
  readonly #parts: TieredFilesParts;
  readonly #below: FileBackend;
  readonly #touched: TouchedDirectories;
  #temporaries = 0;

  constructor(parts: TieredFilesParts) {
    this.#parts = parts;
    this.#touched = new TouchedDirectories(parts.disk);
    this.#below = filesOnDisk(parts.disk, (path) => {
      this.#temporaries += 1;
      return join(dirname(path), '../..', TEMPORARY_DIRECTORY, `metadata-${this.#temporaries}`);
    });
  }

  async create(temporary: string, isWrittenOnce?: boolean): Promise<NewFile> {
    const { disk, tiers, nowSeconds } = this.#parts;
    if (!tiers.locate(temporary)) return this.#below.create(temporary, isWrittenOnce);
    const content = new SpillingFile({
      disk,
      path: temporary,
      limitBytes: tiers.rowLimitBytes,
      mtimeSeconds: nowSeconds(),
      bytes: Buffer.alloc(0),
    });
    return {
      content,
      moveTo: (path) => this.#appear(content, path),
      discard: async () => {
        if (!content.memory) await disk.unlink(temporary);
      },
    };
  }

  async openToRead(path: string): Promise<ReadableFile> {
    const at = this.#parts.tiers.locate(path);
    const found = at?.tier.records.findContent(at.name);
    if (!at || !found || isOnDisk(found.record)) return this.#below.openToRead(path);
    const { record, bytes } = found;
    if (record.place === Place.remote) return at.tier.openRemote(record);
    const { disk } = this.#parts;
    if (disk.access) await disk.access(record.size);
    return rowFile(soundBytes(record, bytes, path), record.mtimeSeconds);
  }

  async openToChange(path: string): Promise<DiskFile> {
    const at = this.#parts.tiers.locate(path);
    if (!at) return this.#below.openToChange(path);
    const done = await at.tier.beginChange(at.name);
    try {
      return await this.#openToChange(at.tier, at.name, path, done);
    } catch (error) {
      done();
      throw error;
    }
  }

  /** Content in another group comes home: as a row with the change, if it fits one. */
  async #openToChange(tier: Tier, name: string, path: string, done: () => void): Promise<DiskFile> {
    const { disk, tiers, onCut, onGrown, onAccess } = this.#parts;
    const found = tier.records.findContent(name);
    const record = found?.record;
    const limitBytes = tiers.changeLimitBytes(record?.moves ?? 0);
    const isSmall = record?.place === Place.remote && record.size <= limitBytes;
    if (record?.place === Place.row || isSmall) {
      const bytes = isSmall
        ? await contentOf(tier.openRemote(record))
        : soundBytes(record, found?.bytes, path);
      onAccess(path, bytes.length, bytes.length, false);
      // A file that came home for a change stays: it would come home with every change.
      const grown = (size: number): void => {
        if (!isSmall) onGrown(tier, name, size);
      };
      return new ChangedRow({ tier, disk, record, bytes, limitBytes, done, onGrown: grown });
    }
    if (record?.place === Place.remote) await tier.bringHome(record);
    const file = await disk.openToUpdate(path);
    return changedFile(file, (size) => onCut(tier, name, size), done);
  }

  async exists(path: string): Promise<boolean> {
    return !isOnDisk(this.#parts.tiers.placeOf(path)) || this.#below.exists(path);
  }

  async move(from: string, to: string): Promise<void> {
    const source = this.#parts.tiers.locate(from);
    const target = this.#parts.tiers.locate(to);
    if (!source || !target) return this.#below.move(from, to);
    const { records } = source.tier;
    const done = await source.tier.beginChange(source.name);
    try {
      const record = records.find(source.name);
      if (record && !isOnDisk(record)) {
        const replaced = records.find(target.name);
        if (replaced) source.tier.remove(replaced);
        records.rename(source.name, target.name);
        return;
      }
      // The new record first: a crash must not leave a file without its metadata. A record without
      // a file does no harm.
      if (record) {
        records.copy(source.name, target.name);
        await records.commit();
      }
      await this.#touched.after(this.#below.move(from, to), from, to);
      if (record) records.remove(source.name);
    } finally {
      done();
    }
  }

  async remove(path: string): Promise<void> {
    const at = this.#parts.tiers.locate(path);
    if (!at) return this.#below.remove(path);
    const done = await at.tier.beginChange(at.name);
    try {
      const record = at.tier.records.find(at.name);
      if (isOnDisk(record)) {
        await this.#touched.after(this.#below.remove(path), path);
      }
      if (record) at.tier.remove(record);
    } finally {
      done();
    }
  }

  makeLink(target: string, path: string): Promise<void> {
    return this.#touched.after(this.#below.makeLink(target, path), path);
  }

  async readLink(path: string): Promise<DiskLink> {
    if (!isOnDisk(this.#parts.tiers.placeOf(path))) throw failure('EINVAL', `${path} is no link`);
    return this.#below.readLink(path);
  }

  async sync(path: string): Promise<void> {
    const at = this.#parts.tiers.locate(path);
    if (!at) return this.#below.sync(path);
    await Promise.all([at.tier.records.commit(), this.#touched.sync(dirname(path))]);
  }

  async hasMetadata(path: string): Promise<boolean> {
    const at = this.#recorded(path);
    return at ? at.tier.records.hasMetadata(at.name) : this.#below.hasMetadata(path);
  }

  async metadata(path: string): Promise<StoredMetadata | undefined> {
    const at = this.#recorded(path);
    if (!at) return this.#below.metadata(path);
    const text = at.tier.records.metadata(at.name);
    return text && { text, mtimeSeconds: at.record.mtimeSeconds };
  }

  async setMetadata(path: string, metadata: StoredMetadata | undefined): Promise<void> {
    const at = this.#recorded(path);
    if (!at) return this.#below.setMetadata(path, metadata);
    at.tier.records.setMetadata(at.name, metadata?.text);
    await at.tier.records.commit();
  }

  /** Where the record of the file is; undefined if it has none. */
  #recorded(path: string) {
    const at = this.#parts.tiers.locate(path);
    const record = at?.tier.records.find(at.name);
    return at && record && { ...at, record };
  }

  async list(directory: string): Promise<string[]> {
    const names = await this.#below.list(directory);
    const { tier, name } = this.#parts.tiers.locate(directory) ?? {};
    if (!tier) return names;
    const rows = tier.records
      .list(`${name}/`)
      .flatMap(({ name: base, hasMetadata }) =>
        hasMetadata ? [base, base + METADATA_SUFFIX] : [base],
      );
    return [...new Set([...names, ...rows])];
  }

  /** The record of a file in another group is switched when the change is complete. */
  isAtomic(path: string): boolean {
    return this.#parts.tiers.placeOf(path)?.place === Place.remote;
  }

  async #appear(content: SpillingFile, path: string): Promise<void> {
    const { tiers, onAccess } = this.#parts;
    const at = tiers.locate(path);
    if (!at) throw new TypeError(`${path} is in no tier`);
    const { tier, name } = at;
    const done = await tier.beginChange(name);
    try {
      if (content.memory && tiers.rowLimitBytes < 0) {
        await content.spill();
        await content.close();
      }
      const { memory, mtimeSeconds } = content;
      if (memory) {
        await tier.replaceByRow(name, { bytes: memory, mtimeSeconds });
        onAccess(path, memory.length, memory.length, true);
      } else {
        await this.#touched.after(tier.becomeFile(name, content.path, mtimeSeconds), path);
      }
    } finally {
      done();
    }
  }
}

/** True unless the content is known to be elsewhere. */
function isOnDisk(record: Pick<FileRecord, 'place'> | undefined): boolean {
  return record === undefined || record.place === Place.file;
}

/** The bytes of a row, checked against its record. */
function soundBytes(record: FileRecord, bytes: Buffer | undefined, path: string): Buffer {
  if (!bytes || bytes.length !== record.size || crc32(bytes) !== record.crc32) {
    throw failure('EIO', `the row of ${path} is damaged`);
  }
  return bytes;
}

/** Reads all bytes and closes the file. */
async function contentOf(file: ReadableFile): Promise<Buffer> {
  try {
    return await readInto(Buffer.allocUnsafe((await file.stat()).size), file, 0);
  } finally {
    await file.close();
  }
}

function failure(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

/** Directories with changed names on disk; only these need a sync. */
class TouchedDirectories {
  readonly #disk: Disk;
  readonly #touched = new Set<string>();
  /** Syncs in progress. */
  readonly #syncs = new Map<string, Promise<void>>();

  constructor(disk: Disk) {
    this.#disk = disk;
  }

  /** A sync that started before the change ended may have missed it. */
  async after(change: Promise<void>, ...paths: readonly string[]): Promise<void> {
    try {
      await change;
    } finally {
      for (const path of paths) this.#touched.add(dirname(path));
    }
  }

  async sync(directory: string): Promise<void> {
    const underWay = this.#syncs.get(directory);
    if (!this.#touched.delete(directory)) return underWay;
    const sync = Promise.all([underWay, this.#disk.syncDirectory(directory)]).then(() => {});
    this.#syncs.set(directory, sync);
    try {
      await sync;
    } catch (error) {
      this.#touched.add(directory);
      throw error;
    } finally {
      if (this.#syncs.get(directory) === sync) this.#syncs.delete(directory);
    }
  }
}
