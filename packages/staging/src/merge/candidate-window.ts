import type { FileRow } from '../filemap/filemap.js';

/**
 * The waiting files that a trunk is chosen from: the oldest, in order of arrival, until
 * there are enough for a choice. An affinity group is not cut off at the end: members
 * that came soon after are taken along, so that files which arrived mixed with others,
 * from two forms at a time say, are still stored side by side. Pure; rows are given to
 * it one by one.
 */

export interface WindowLimits {
  /** Enough for a choice. */
  readonly bytes: number;
  readonly files: number;
  /** Files looked at beyond that, for members of the groups that are in. */
  readonly filesBeyond: number;
}

export class CandidateWindow {
  readonly rows: FileRow[] = [];
  readonly #limits: WindowLimits;
  readonly #groups = new Set<string>();
  #bytes = 0;
  #beyond = 0;

  constructor(limits: WindowLimits) {
    this.#limits = limits;
  }

  /** Takes the row if it belongs here; false once none after it does. */
  take(row: FileRow): boolean {
    const { bytes, files, filesBeyond } = this.#limits;
    if (this.#bytes < bytes && this.rows.length < files) {
      this.rows.push(row);
      this.#bytes += row.size;
      if (row.group !== undefined) this.#groups.add(row.group);
      return true;
    }
    if (row.group !== undefined && this.#groups.has(row.group)) this.rows.push(row);
    this.#beyond += 1;
    return this.#groups.size > 0 && this.#beyond < filesBeyond;
  }
}
