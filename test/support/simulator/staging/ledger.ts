import { strict as assert } from 'node:assert';
import { crc32 } from 'node:zlib';
import type { FileRow, Staging, TrunkRow } from '@stevedore/staging';
import type { MemoryTrunkStore } from '../../memory-trunk-store.js';
import type { Reads, Undecided } from '../subject.js';

/**
 * What the owner of some files was told about each of them, and the check that
 * Staging keeps to it: an acknowledged file reads back whole, a deleted one stays
 * deleted, a refused one is not there. What was under way at a crash may have
 * happened or not; whichever it is found to be, it must stay.
 */

/**
 * putting, deleting: called and not answered. refused: the put was rejected.
 * undeleted: there, after a deletion was rejected. lost: never acknowledged and
 * not there after a crash.
 */
export type FileState =
  | 'putting'
  | 'refused'
  | 'kept'
  | 'deleting'
  | 'undeleted'
  | 'deleted'
  | 'lost';

export interface LedgerEntry {
  readonly key: Buffer;
  readonly bytes: Buffer;
  readonly large: boolean;
  readonly name: string;
  readonly group: string | undefined;
  state: FileState;
  /** Places in trunks at which it was found, as `fileId offset`: ids that were told. */
  readonly places: Set<string>;
}

/** States that a start decides. */
const UNDECIDED: Readonly<Record<Undecided, readonly FileState[]>> = {
  all: ['putting', 'refused', 'deleting', 'undeleted'],
  refused: ['refused', 'undeleted'],
  unanswered: ['putting', 'deleting', 'undeleted'],
  undeleted: ['undeleted'],
  none: [],
};

export class Ledger {
  readonly #entries = new Map<string, LedgerEntry>();
  /** False while a start is under way that may decide what no answer has decided. */
  isSettled = true;
  /** Grows with every change. */
  version = 0;

  entries(): LedgerEntry[] {
    return [...this.#entries.values()];
  }

  in(...states: readonly FileState[]): LedgerEntry[] {
    return this.entries().filter(({ state }) => states.includes(state));
  }

  add(entry: Omit<LedgerEntry, 'state' | 'places'>): void {
    const added = { ...entry, state: 'putting' as const, places: new Set<string>() };
    this.#entries.set(entry.key.toString('hex'), added);
    this.version += 1;
  }

  set(key: Buffer, state: FileState): void {
    this.#entries.get(key.toString('hex'))!.state = state;
    this.version += 1;
  }

  get(key: Buffer): LedgerEntry {
    return this.#entries.get(key.toString('hex'))!;
  }

  copy(): Ledger {
    const ledger = new Ledger();
    for (const [name, entry] of this.#entries) {
      ledger.#entries.set(name, { ...entry, places: new Set(entry.places) });
    }
    ledger.version = this.version;
    return ledger;
  }

  /**
   * Decides, by what a start has found, what no answer has decided. After a start
   * that no crash preceded, only what the disk did not let take back is open; and once
   * it has taken anything since, of the refused only deletions (unanswered: and what was
   * under way at a crash).
   */
  settle(staging: Staging, undecided: Undecided): void {
    this.isSettled = true;
    for (const { key, state } of this.in(...UNDECIDED[undecided])) {
      const isThere = staging.fileMap.find(key) !== undefined;
      const isPut = state === 'putting' || state === 'refused';
      this.set(key, isThere ? 'kept' : isPut ? 'lost' : 'deleted');
    }
  }

  /** Throws AssertionError when Staging does not keep to what was answered. */
  async check(
    staging: Staging,
    store: MemoryTrunkStore,
    reads: Reads = 'must work',
  ): Promise<void> {
    for (const entry of this.entries()) {
      const { key, state } = entry;
      if (state === 'putting' || state === 'deleting') continue;
      if (!this.isSettled && (state === 'refused' || state === 'undeleted')) continue;
      const name = describe(entry);
      if (state === 'kept' || state === 'undeleted') {
        await checkFile(staging, store, entry, reads);
        checkPlaces(staging, store, entry);
      } else {
        assert.ok(!staging.fileMap.find(key), `${name} must not be there`);
        if (state === 'deleted') checkDeadPlaces(staging, store, entry);
      }
      if (state === 'kept') assert.ok(!staging.fileMap.isDeleted(key), `${name} counts as deleted`);
    }
  }

  /** Throws AssertionError when the counters are not those of the files that are there. */
  checkCounters(staging: Staging): void {
    const rows = this.entries().flatMap(({ key }) => staging.fileMap.find(key) ?? []);
    const { waitingFiles, waitingBytes, spooledFiles, mergedFiles, mergedBytes } = staging.stats();
    const merged = rows.filter((row) => row.trunk);
    const small = rows.filter((row) => !row.trunk && row.local.at === 'container');
    const sum = (of: FileRow[]) => of.reduce((bytes, { size }) => bytes + size, 0);
    assert.deepEqual(
      { waitingFiles, waitingBytes, spooledFiles, mergedFiles, mergedBytes },
      {
        waitingFiles: small.length,
        waitingBytes: sum(small),
        spooledFiles: rows.length - merged.length - small.length,
        mergedFiles: merged.length,
        mergedBytes: sum(merged),
      },
      'the counters do not match the files',
    );
  }
}

const ATTEMPTS = 5;

async function checkFile(
  staging: Staging,
  store: MemoryTrunkStore,
  entry: LedgerEntry,
  reads: Reads,
): Promise<void> {
  const name = describe(entry);
  for (let attempt = 1; ; attempt++) {
    const row = staging.fileMap.find(entry.key);
    // Until all trunks are read, a FileMap that is made anew does not know every file.
    if (!row && !staging.rebuild.isComplete) return;
    assert.ok(row, `${name} is not there`);
    assert.deepEqual([row.name, row.group], [entry.name, entry.group], `${name}: meta`);
    const local = await readLocal(staging, row).catch((error: Error) => {
      if (reads === 'must work') assert.fail(`${name}: ${error.message}`);
      return entry.bytes;
    });
    const stored = readStored(store, row);
    // It may have been merged, and its local copy dropped, since it was looked up.
    const isOld = staging.fileMap.find(entry.key)?.trunk?.fileId !== row.trunk?.fileId;
    if (isOld && attempt < ATTEMPTS) continue;
    if (row.trunk) assert.ok(stored, `${name}: its trunk has been removed`);
    assert.ok(local ?? stored, `${name} cannot be read`);
    assert.ok((local ?? entry.bytes).equals(entry.bytes), `${name}: other bytes on the disk`);
    assert.ok((stored ?? entry.bytes).equals(entry.bytes), `${name}: other bytes in its trunk`);
    if (row.trunk) entry.places.add(`${row.trunk.fileId} ${row.trunk.offset}`);
    return;
  }
}

/** Every slice id that was ever told leads to the file. */
function checkPlaces(staging: Staging, store: MemoryTrunkStore, entry: LedgerEntry): void {
  for (const place of entry.places) {
    const [fileId, offset] = splitPlace(place);
    const trunk = staging.fileMap.trunkByFileId(fileId);
    const row = trunk && staging.fileMap.findInTrunk(trunk.id, offset);
    const found = row ?? staging.fileMap.forwarded(fileId, offset);
    if (found?.key.equals(entry.key)) continue;
    // It may have been moved to a trunk that has not been read, and its own be gone.
    if (!staging.rebuild.isComplete) continue;
    // Until it is read, the trunk itself tells.
    assert.ok(!isSettled(trunk) && store.files.has(fileId), `${describe(entry)}: not at ${place}`);
  }
}

/** No slice id of a deleted file leads to its bytes, also where a trunk still has them. */
function checkDeadPlaces(staging: Staging, store: MemoryTrunkStore, entry: LedgerEntry): void {
  for (const place of entry.places) {
    const [fileId, offset] = splitPlace(place);
    const trunk = staging.fileMap.trunkByFileId(fileId);
    const row = trunk && staging.fileMap.findInTrunk(trunk.id, offset);
    const name = `${describe(entry)} at ${place}`;
    assert.ok(!row && !staging.fileMap.forwarded(fileId, offset), `${name} is there`);
    if (isSettled(trunk) || !store.files.has(fileId)) continue;
    assert.ok(staging.fileMap.isDeleted(entry.key), `${name} can be read from its trunk`);
  }
}

function splitPlace(place: string): [fileId: string, offset: number] {
  const [fileId, offset] = place.split(' ');
  return [fileId!, Number(offset)];
}

/** The FileMap knows all that is alive in it. */
function isSettled(trunk: TrunkRow | undefined): boolean {
  return trunk !== undefined && ['confirmed', 'retiring', 'retired'].includes(trunk.state);
}

async function readLocal(staging: Staging, row: FileRow): Promise<Buffer | undefined> {
  if (!staging.local.has(row)) return undefined;
  if (row.local.at === 'container') return staging.local.read(row);
  const chunks: Buffer[] = [];
  for await (const chunk of staging.spool.read(row.key, row)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** The file's bytes in FastDFS; undefined when its trunk is not there. */
function readStored(store: MemoryTrunkStore, row: FileRow): Buffer | undefined {
  if (!row.trunk) return undefined;
  const { fileId, offset } = row.trunk;
  return store.files.get(fileId)?.subarray(offset, offset + row.size);
}

function describe(entry: LedgerEntry): string {
  const { name, bytes, state } = entry;
  return `${state} ${name} (${bytes.length} bytes, CRC-32 ${crc32(bytes)})`;
}
