import { type DataFiles, dataRecord } from '../io-tier/data-files.js';
import type { StripedFile } from '../io-tier/striped-file.js';
import { Place } from './constants.js';
import type { LocalFiles } from './local-files.js';
import type { MoveStep } from './move.js';
import type { FileRecord } from './record-row.js';
import type { Records } from './records.js';

/**
 * Where a record says that the bytes are, changed: in the same transaction, what it was of
 * at other servers is listed for deletion there. Durable with the next commit.
 */

export interface SwitchesParts {
  readonly records: Records;
  readonly local: LocalFiles;
  readonly dataFiles: DataFiles | undefined;
  readonly onStep: (step: MoveStep, name: string) => void;
}

/** What a data file at I/O servers takes over from the record before it. */
export interface Kept {
  readonly moves: number;
  readonly moving: boolean;
}

export class Switches {
  readonly #parts: SwitchesParts;

  constructor(parts: SwitchesParts) {
    this.#parts = parts;
  }

  toFile(before: FileRecord, size: number, mtimeSeconds: number): void {
    const { name } = before;
    const moves = before.moves + (before.place === Place.row ? 1 : 0);
    this.#parts.records.put(
      { name, place: Place.file, size, mtimeSeconds, crc32: 0, moves, moving: false },
      undefined,
    );
    this.release(before);
  }

  toServers(
    before: FileRecord | undefined,
    name: string,
    file: StripedFile,
    { moves, moving }: Kept,
  ): void {
    const { layout, size, mtimeSeconds } = file;
    const rest = { size, mtimeSeconds, moves, moving };
    this.#parts.records.put({ place: Place.servers, ...dataRecord(name, layout, rest) }, undefined);
    file.recorded();
    if (before?.layout?.handle !== layout.handle) this.release(before);
  }

  /** What a record was of at other servers is to be deleted there. */
  release(before: FileRecord | undefined): void {
    const { records, dataFiles } = this.#parts;
    if (before?.guest !== undefined) records.addDeparture(before.guest);
    if (before?.layout) dataFiles?.release(before.layout);
  }

  /** The file on this disk, which the record is not of any more, goes, and then its mark. */
  async finishWithoutLocalFile(name: string): Promise<void> {
    const { records, local, onStep } = this.#parts;
    await local.delete(name);
    onStep('deleted', name);
    records.setMoving(name, false);
    await records.commit();
  }
}
