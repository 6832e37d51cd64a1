import type { Changes } from '../changes.js';
import { StoreError } from '../errors.js';
import type { DamagedCopy, DamagePlace, FileMap, FileRow } from '../filemap/filemap.js';
import { formatKey, nameOf } from '../key.js';
import type { WaitingFiles } from '../merge/waiting-files.js';

/**
 * The list of damaged copies, which are not read: a file's bytes in the container or the spool, or
 * the copy at one storage. It is kept in the FileMap, so it survives restarts; if the FileMap is
 * lost, damage is found again when it is read. Each copy is reported once, as an event and an
 * error.
 */
export interface DamageStats {
  /** Damaged copies found since the start. */
  readonly found: number;
  /** Copies repaired, or dropped in favour of a sound one. */
  readonly repaired: number;
  /** Copies currently quarantined. */
  readonly quarantined: number;
}

interface QuarantineParts {
  readonly fileMap: FileMap;
  readonly files: WaitingFiles;
  readonly changes: Changes;
  readonly now: () => number;
}

/**
 * Maximum copies known in memory; others are still listed, but read again before they are refused.
 */
const MAX_KNOWN = 100_000;

export class Quarantine {
  readonly #state: QuarantineParts;
  /** Keys (latin1). Usually empty, and every read looks here first. */
  readonly #known = new Set<string>();
  #found = 0;
  #repaired = 0;

  constructor(state: QuarantineParts) {
    this.#state = state;
    for (const copy of state.fileMap.damagedCopies(MAX_KNOWN)) this.#remember(copy);
    for (const { key } of this.onlyCopies()) state.files.exclude(key);
  }

  stats(): DamageStats {
    const quarantined = this.#state.fileMap.countDamage();
    return { found: this.#found, repaired: this.#repaired, quarantined };
  }

  /** The table is authoritative: a file that was deleted or moved has other copies. */
  has(key: Buffer, place: DamagePlace, holder = ''): boolean {
    if (!this.#isKnown(key)) return false;
    const copies = this.#state.fileMap.damageOf(key);
    return copies.some((copy) => copy.place === place && copy.holder === holder);
  }

  /** Storages that must not be asked for the file. */
  holders(key: Buffer): string[] {
    return this.#isKnown(key) ? this.#state.fileMap.damagedHolders(key) : [];
  }

  /** Usually none is, and no name is made for it. */
  #isKnown(key: Buffer): boolean {
    return this.#known.size > 0 && this.#known.has(nameOf(key));
  }

  /** Quarantines a copy whose bytes are damaged. */
  add(row: FileRow, place: DamagePlace, holder = ''): void {
    const { fileMap, now, changes } = this.#state;
    const copy = { key: row.key, place, holder, foundAt: now() };
    const current = fileMap.find(row.key);
    // The file was deleted, or stored elsewhere, since it was read.
    if (!current || !isSameCopy(row, current, place) || !fileMap.addDamage(copy)) return;
    this.#remember(copy);
    this.#found += 1;
    const fileId = place === 'trunk' ? row.trunk?.fileId : undefined;
    const key = formatKey(row.key);
    changes.emit('damage', { key, place, storage: holder === '' ? undefined : holder, fileId });
    const where = fileId === undefined ? `the ${place}` : `${fileId} at ${holder || 'a storage'}`;
    changes.report(new StoreError('corrupt', `the bytes of ${key} in ${where} are damaged`));
  }

  /** Releases a copy that is sound again or no longer belongs to the file. */
  lift(key: Buffer, place: DamagePlace, holder = ''): void {
    if (!this.has(key, place, holder)) return;
    this.#state.fileMap.removeDamage({ key, place, holder });
    if (this.#state.fileMap.damageOf(key).length === 0) this.forget(key);
  }

  /** Forgets a file that was deleted or has other copies from now on. */
  forget(key: Buffer): void {
    this.#known.delete(nameOf(key));
    if (this.#state.files.include(key)) this.#state.changes.emit('mergeable');
  }

  /** Keeps a copy quarantined that was moved to that place as it is; it was reported before. */
  keep(key: Buffer, place: DamagePlace): void {
    const { fileMap, now } = this.#state;
    const copy = { key, place, holder: '', foundAt: now() };
    if (fileMap.addDamage(copy)) this.#remember(copy);
  }

  countRepaired(): void {
    this.#repaired += 1;
  }

  /** Waiting files whose only copy is damaged. */
  onlyCopies(): FileRow[] {
    const rows = [...this.#known].flatMap(
      (name) => this.#state.fileMap.find(Buffer.from(name, 'latin1')) ?? [],
    );
    return rows.filter(({ trunk }) => !trunk);
  }

  #remember({ key }: DamagedCopy): void {
    if (this.#known.size < MAX_KNOWN) this.#known.add(nameOf(key));
  }
}

function isSameCopy(read: FileRow, current: FileRow, place: DamagePlace): boolean {
  if (place === 'trunk') return read.trunk?.fileId === current.trunk?.fileId;
  if (place === 'spool') return current.local.at === 'spool';
  const { segment, position } = current.local;
  return read.local.segment === segment && read.local.position === position;
}
