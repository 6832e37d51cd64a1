import { crc32 } from 'node:zlib';
import { isMediumFailure } from '@stevedore/disk';
import { Unreadable } from '../container/segment.js';
import type { FileRow } from '../filemap/filemap.js';
import { encodeDirectory, encodeMemberHeader, type TrunkPlan } from './trunk-plan.js';

/**
 * The bytes of a planned trunk, read from the container as they are sent: nothing
 * of a trunk is ever in memory whole or on the disk twice. Every file is held
 * against its CRC-32 on the way.
 */

/** The bytes of files on this disk are not those that were acknowledged, or cannot be read. */
export class DamagedMembers extends Error {
  readonly rows: readonly FileRow[];

  /** At least one. */
  constructor(rows: readonly FileRow[]) {
    const names = rows.map(({ key }) => key.toString('base64url'));
    const others = rows.length > 1 ? ` and of ${rows.length - 1} more` : '';
    super(`the staged bytes of ${names[0]}${others} are damaged`);
    this.rows = rows;
  }
}

export interface ContainerReader {
  /** Bytes of a segment; fewer only at its end. */
  read(segment: number, position: number, count: number): Promise<Buffer>;
  /** The same, but Unreadable for those that the disk does not give time and again. */
  readFirmly(segment: number, position: number, count: number): Promise<Buffer>;
}

/** One read covers neighbours up to this many bytes, skipping gaps of at most the second figure. */
const EXTENT_BYTES = 2 ** 20;
const MAX_GAP_BYTES = 64 * 1024;

/** Yields the trunk in pieces of about a MiB; throws DamagedMembers. */
export async function* trunkBytes(
  plan: TrunkPlan,
  container: ContainerReader,
): AsyncGenerator<Buffer> {
  for (const extent of extents(plan.rows)) {
    const bodies = await bodiesOf(extent, container);
    const isSound = ({ size, crc32: crc }: FileRow, index: number) =>
      bodies[index]?.length === size && crc32(bodies[index]) === crc;
    const damaged = extent.rows.filter((row, index) => !isSound(row, index));
    if (damaged.length > 0) throw new DamagedMembers(damaged);
    yield Buffer.concat(extent.rows.flatMap((row, at) => [encodeMemberHeader(row), bodies[at]!]));
  }
  yield encodeDirectory(plan);
}

/** One by one where they cannot be read together: one bad sector is not all of theirs. */
async function bodiesOf(
  { segment, start, end, rows }: Extent,
  container: ContainerReader,
): Promise<(Buffer | undefined)[]> {
  try {
    const bytes = await container.read(segment, start, end - start);
    return rows.map(({ local, size }) => {
      const from = local.position - start;
      return bytes.subarray(from, from + size);
    });
  } catch (error) {
    if (!isMediumFailure(error)) throw error;
  }
  const bodies: (Buffer | undefined)[] = [];
  for (const { local, size } of rows) {
    const body = container.readFirmly(segment, local.position, size).catch((error: unknown) => {
      if (error instanceof Unreadable) return undefined;
      throw error;
    });
    bodies.push(await body);
  }
  return bodies;
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
    const { segment, position } = row.local;
    const end = position + row.size;
    const gap = last ? position - last.end : 0;
    if (
      last?.segment === segment &&
      gap >= 0 &&
      gap <= MAX_GAP_BYTES &&
      end - last.start <= EXTENT_BYTES
    ) {
      last.rows.push(row);
      last.end = end;
    } else {
      found.push({ segment, start: position, end, rows: [row] });
    }
  }
  return found;
}
