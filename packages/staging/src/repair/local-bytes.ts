import { crc32 } from 'node:zlib';
import { StoreError } from '../errors.js';
import type { DamagePlace, FileRow } from '../filemap/filemap.js';
import { formatKey } from '../key.js';
import type { State } from '../state.js';
import { rollBackMove } from './repair.js';
import { soundBytes } from './sound-bytes.js';

/**
 * Reads files from this disk. A damaged copy is never returned: it is quarantined, and repaired if
 * another copy is sound.
 */
export class LocalBytes {
  readonly #state: State;

  constructor(state: State) {
    this.#state = state;
  }

  /** True if `read`, or the spool, can give the file's bytes from this disk. */
  has({ key, local: { at, segment } }: FileRow): boolean {
    const { container, spool, quarantine } = this.#state;
    // A spool file without a record may still be being written.
    if (at === 'gone') return false;
    if (at === 'spool') return spool.has(key) && !quarantine.has(key, 'spool');
    return container.segment(segment) !== undefined && !quarantine.has(key, 'container');
  }

  /**
   * The bytes of a small file, at once, for this turn: copy what you keep. Undefined if that needs
   * waiting, or the copy here is not sound: then `read` says what to do.
   */
  readNow(row: FileRow): Buffer | undefined {
    const { container, quarantine } = this.#state;
    const { key, local, size } = row;
    if (local.at !== 'container' || quarantine.has(key, 'container')) return undefined;
    const { segment, position } = local;
    const inMemory = container.inMemory(segment, position, size);
    if (inMemory) return inMemory;
    const bytes = container.segment(segment)?.readNow(position, size);
    return bytes && crc32(bytes) === row.crc32 ? bytes : undefined;
  }

  /**
   * The bytes of a small file; undefined if they are no longer on this disk or the file is in
   * FastDFS again. Throws `corrupt` if they are damaged or unreadable and FastDFS has no copy.
   */
  async read(row: FileRow): Promise<Buffer | undefined> {
    const { container, quarantine } = this.#state;
    const { segment, position } = row.local;
    const inMemory = container.inMemory(segment, position, row.size);
    if (inMemory) return Buffer.from(inMemory);
    if (!container.segment(segment)) {
      if (!row.trunk) await this.rollBackMove(row.key);
      return undefined;
    }
    if (!quarantine.has(row.key, 'container')) {
      try {
        const bytes = await soundBytes(container, row);
        if (bytes) return bytes;
        this.noteDamage(row, 'container');
      } catch (error) {
        // The disk may recover.
        if (!row.trunk) throw error;
      }
    }
    if (row.trunk || (await this.rollBackMove(row.key))) return undefined;
    throw new StoreError(
      'corrupt',
      `the staged bytes of ${formatKey(row.key)} are not those that were stored`,
    );
  }

  /**
   * Rolls a file that was being moved back to its former place in FastDFS, if its copy here is
   * damaged and not stored yet. True if the file is then in FastDFS. Rejects while FastDFS is
   * unreachable.
   */
  async rollBackMove(key: Buffer): Promise<boolean> {
    const row = this.#state.fileMap.find(key);
    if (!row || row.trunk) return row !== undefined;
    if (row.was.length === 0 || this.has(row)) return false;
    return rollBackMove(this.#state, row, undefined);
  }

  /** Quarantines a damaged copy; it is repaired if possible. */
  noteDamage(row: FileRow, place: DamagePlace, storage?: string): void {
    const { quarantine, files, changes } = this.#state;
    quarantine.add(row, place, storage);
    if (!row.trunk) files.exclude(row.key);
    if (row.trunk || row.was.length > 0) changes.emit('damaged', row);
  }
}
