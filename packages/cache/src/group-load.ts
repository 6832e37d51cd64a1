import { crc32 } from 'node:zlib';
import type { FileCache } from './file-cache.js';
import type { Flight } from './flights.js';

/**
 * Loads a file together with the members of its group beside it: reads one extent and caches every
 * member in it whose CRC-32 matches.
 */

export interface Member extends Placed {
  /** Its id in the cache. */
  readonly id: string;
  readonly crc32: number;
  /** False: do not cache it, because it was deleted for instance. */
  readonly alive: boolean;
}

export interface GroupLoad {
  readonly cache: FileCache;
  readonly flight: Flight;
  /** Where the members are, such as a trunk: the unit by which reading ahead is judged. */
  readonly source: string;
  /** In the order of their offsets. */
  readonly members: readonly Member[];
  /** Index of the requested file. */
  readonly asked: number;
  /** Most bytes to read, unless the file alone is larger. */
  readonly maxBytes: number;
  /** Reads bytes, which are copied, so the same memory may serve the next read. */
  read(offset: number, bytes: number): Promise<Buffer>;
  /** Called once for the result of `read`, when it is no longer needed. */
  release?(bytes: Buffer): void;
}

/**
 * The requested file; undefined if it is better read alone: nothing beside it is worth reading,
 * reading ahead has not paid, or its CRC-32 does not match.
 */
export async function loadGroup(load: GroupLoad): Promise<Buffer | undefined> {
  const { cache, flight, source, members, asked, maxBytes, read } = load;
  if (members.length < 2) return undefined;
  const wanted = members.map(
    ({ id, size, alive }, index) =>
      index !== asked && alive && size > 0 && size <= cache.maxFileBytes && !cache.isComing(id),
  );
  const extent = extentAround(members, asked, maxBytes, (index) => !wanted[index]);
  if (extent.first === extent.last || !cache.readAhead.pays(source)) return undefined;
  const inExtent = (index: number): boolean => index >= extent.first && index <= extent.last;
  const besides = members.filter((_, index) => wanted[index] && inExtent(index));
  // From here on, a deletion reaches the files in flight.
  const claimed = new Set(flight.claim(besides.map(({ id }) => id)));
  const bytes = await read(extent.offset, extent.bytes);
  try {
    const part = ({ offset, size }: Placed): Buffer =>
      bytes.subarray(offset - extent.offset, offset - extent.offset + size);
    const file = part(members[asked]!);
    if (!isWhole(members[asked]!, file)) return undefined;
    for (const member of besides) {
      const content = part(member);
      if (claimed.has(member.id) && isWhole(member, content)) {
        flight.deliver(member.id, copyOf(content), source);
      }
    }
    return copyOf(file);
  } finally {
    load.release?.(bytes);
  }
}

/** A copy in its own memory: a cached file must not keep the rest of a read alive. */
function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

export function isWhole(
  { size, crc32: expected }: { readonly size: number; readonly crc32: number },
  bytes: Buffer,
): boolean {
  return bytes.length === size && crc32(bytes) === expected;
}

/**
 * Chooses what to read around a file in a group: one extent with the file and, within a bound, the
 * members that are not cached yet. Pure.
 */

export interface Placed {
  readonly offset: number;
  readonly size: number;
}

export interface Extent {
  /** Index of its first and last member. */
  readonly first: number;
  readonly last: number;
  readonly offset: number;
  readonly bytes: number;
}

/**
 * `members` are in the order of their offsets, `asked` among them. Members behind the file come
 * first, because files follow each other in the order they came; cached ones at either end are left
 * out. The file itself is always included, however large.
 */
export function extentAround(
  members: readonly Placed[],
  asked: number,
  maxBytes: number,
  isKept: (index: number) => boolean,
): Extent {
  let first = asked;
  let last = asked;
  const span = (from: number, to: number): number =>
    members[to]!.offset + members[to]!.size - members[from]!.offset;
  for (let next = asked + 1; next < members.length && span(first, next) <= maxBytes; next += 1) {
    if (!isKept(next)) last = next;
  }
  for (let next = asked - 1; next >= 0 && span(next, last) <= maxBytes; next -= 1) {
    if (!isKept(next)) first = next;
  }
  return { first, last, offset: members[first]!.offset, bytes: span(first, last) };
}
