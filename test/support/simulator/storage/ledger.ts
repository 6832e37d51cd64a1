import { strict as assert } from 'node:assert';
import { crc32 } from 'node:zlib';
import type { FileName, SliceEntry } from '@stevedore/protocol';

/**
 * What the clients of a storage were told about each file, and so what may be found
 * of it. A change that was answered has happened; one that was refused by a failing
 * disk, or not answered, may have happened or not, but wholly. Whatever a power
 * failure left of it must then stay.
 */

export interface Version {
  /** Undefined: there is no such file. */
  readonly bytes: Buffer | undefined;
  readonly metadata?: string | undefined;
  /** The file goes on under a new name, as that of another entry. */
  readonly movedTo?: number;
}

export type Kind = 'normal' | 'appender' | 'slave';

interface Slice extends SliceEntry {
  readonly bytes: Buffer;
  /** What may be found: that it is there, that it is not, either. */
  readonly possible: readonly boolean[];
}

export interface Entry {
  readonly id: number;
  readonly kind: Kind;
  /** As a client was told it; undefined as long as nobody was. */
  file: FileName | undefined;
  possible: readonly Version[];
  slices: readonly Slice[];
}

export interface NewEntry {
  readonly kind: Kind;
  readonly bytes: Buffer | undefined;
  readonly file?: FileName | undefined;
}

export const ABSENT: Version = { bytes: undefined };

export class StorageLedger {
  readonly #entries = new Map<number, Entry>();
  /** Grows with every change. */
  version = 0;

  entries(): Entry[] {
    return [...this.#entries.values()];
  }

  get(id: number): Entry {
    return this.#entries.get(id)!;
  }

  /** Files whose clients know that they are there. */
  living(...kinds: readonly Kind[]): Entry[] {
    return this.entries().filter(
      ({ kind, file, possible }) =>
        file && kinds.includes(kind) && possible.every(({ bytes }) => bytes),
    );
  }

  copy(): StorageLedger {
    const ledger = new StorageLedger();
    for (const [id, entry] of this.#entries) ledger.#entries.set(id, { ...entry });
    ledger.version = this.version;
    return ledger;
  }

  /** An upload begins; it may leave the file or nothing. */
  add({ bytes, ...about }: NewEntry): Entry {
    this.version += 1;
    const id = this.version;
    const entry = { ...about, id, file: about.file, possible: [ABSENT, { bytes }], slices: [] };
    this.#entries.set(id, entry);
    return entry;
  }

  /** The upload has been answered. */
  added(id: number, file: FileName): void {
    const entry = this.get(id);
    entry.file = file;
    entry.possible = entry.possible.filter(({ bytes }) => bytes !== undefined);
    this.version += 1;
  }

  /** A change begins; the function it returns is to be called when it has been answered. */
  change(id: number, change: (version: Version) => Version): () => void {
    const entry = this.get(id);
    const after = entry.possible.map(change);
    entry.possible = different([...entry.possible, ...after]);
    this.version += 1;
    return () => {
      entry.possible = different(after);
      this.version += 1;
    };
  }

  /** A deletion of a slice begins, or has been answered. */
  setSlice(id: number, index: number, possible: readonly boolean[]): void {
    const entry = this.get(id);
    entry.slices = entry.slices.map((slice, at) => (at === index ? { ...slice, possible } : slice));
    this.version += 1;
  }

  /** Throws AssertionError if such a version cannot be; keeps to it if `settles`. */
  found(id: number, version: Version, settles: boolean): void {
    const entry = this.get(id);
    const agreeing = entry.possible.filter((each) => same(each, version));
    const text = `found ${describe(version)} instead of ${entry.possible.map(describe).join(' or ')}`;
    assert.ok(agreeing.length > 0, `${entry.kind} ${entry.id} ${entry.file?.name}: ${text}`);
    if (settles) entry.possible = agreeing;
  }
}

/** True if a client sees no difference. */
function same(one: Version, other: Version): boolean {
  if (one.bytes === undefined || other.bytes === undefined) return one.bytes === other.bytes;
  return one.bytes.equals(other.bytes) && one.metadata === other.metadata;
}

function different(versions: readonly Version[]): Version[] {
  return versions.filter(
    (version, index) =>
      versions.findIndex((each) => same(each, version) && each.movedTo === version.movedTo) ===
      index,
  );
}

function describe({ bytes, metadata, movedTo }: Version): string {
  if (!bytes) return movedTo === undefined ? 'nothing' : `nothing (it is ${movedTo} now)`;
  const text = metadata === undefined ? '' : ` with metadata ${JSON.stringify(metadata)}`;
  return `${bytes.length} bytes of CRC-32 ${crc32(bytes)}${text}`;
}
