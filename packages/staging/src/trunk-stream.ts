import { crc32 } from 'node:zlib';
import type { FileRow } from './filemap.js';
import { encodeDirectory, encodeMemberHeader, type TrunkPlan } from './trunk-plan.js';

/**
 * The bytes of a planned trunk, read from the container as they are sent: nothing
 * of a trunk is ever in memory whole or on the disk twice. Every file is held
 * against its CRC-32 on the way.
 */

/** A file's bytes in the container are not those that were acknowledged. */
export class DamagedMember extends Error {
  readonly row: FileRow;

  constructor(row: FileRow) {
    super(`the staged bytes of ${row.key.toString('base64url')} are not those that were stored`);
    this.row = row;
  }
}

export interface ContainerReader {
  /** Bytes of a segment; fewer only at its end. */
  read(segment: number, position: number, count: number): Promise<Buffer>;
}

/** One read covers neighbours up to this many bytes, skipping gaps of at most the second figure. */
const EXTENT_BYTES = 2 ** 20;
const MAX_GAP_BYTES = 64 * 1024;

/** Yields the trunk in pieces of about a MiB; throws DamagedMember. */
export async function* trunkBytes(
  plan: TrunkPlan,
  container: ContainerReader,
): AsyncGenerator<Buffer> {
  for (const extent of extents(plan.rows)) {
    const bytes = await container.read(extent.segment, extent.start, extent.end - extent.start);
    const parts: Buffer[] = [];
    for (const row of extent.rows) {
      const from = row.position - extent.start;
      const body = bytes.subarray(from, from + row.size);
      if (body.length !== row.size || crc32(body) !== row.crc32) throw new DamagedMember(row);
      parts.push(encodeMemberHeader(row), body);
    }
    yield Buffer.concat(parts);
  }
  yield encodeDirectory(plan);
}

interface Extent {
  readonly segment: number;
  readonly start: number;
  end: number;
  readonly rows: FileRow[];
}

/** Runs of members that one read of their segment covers. */
function extents(rows: readonly FileRow[]): Extent[] {
  const found: Extent[] = [];
  for (const row of rows) {
    const last = found.at(-1);
    const end = row.position + row.size;
    const gap = last ? row.position - last.end : 0;
    if (
      last?.segment === row.segment &&
      gap >= 0 &&
      gap <= MAX_GAP_BYTES &&
      end - last.start <= EXTENT_BYTES
    ) {
      last.rows.push(row);
      last.end = end;
    } else {
      found.push({
        segment: row.segment,
        start: row.position,
        end,
        rows: [row],
      });
    }
  }
  return found;
}
