import { crc32 } from 'node:zlib';
import type { FileCache } from './file-cache.js';
import type { Flight } from './flights.js';

/**
 * Loads a file together with the members of its group that lie beside it: one read of
 * an extent, from which every member is kept that is whole by its CRC-32.
 */

export interface Member extends Placed {
  /** What it is called in the cache. */
  readonly id: string;
  readonly crc32: number;
  /** False: it is not to be kept, deleted for instance. */
  readonly alive: boolean;
}

export interface GroupLoad {
  readonly cache: FileCache;
  readonly flight: Flight;
  /** Where they lie, a trunk say: what is learned about reading ahead is learned of it. */
  readonly source: string;
  /** In the order of their offsets. */
  readonly members: readonly Member[];
  /** Index of the file that was asked for. */
  readonly asked: number;
  /** Bytes read at the most, unless the file alone has more. */
  readonly maxBytes: number;
  /** The bytes; they are copied from there, so the same memory may serve the next read. */
  read(offset: number, bytes: number): Promise<Buffer>;
  /** Called once for what `read` gave, when it is no longer needed. */
  release?(bytes: Buffer): void;
}

/**
 * The file that was asked for; undefined if it is better read alone: nothing is missing
 * beside it, reading ahead has not paid, or it did not come whole this way.
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
  // From here on a deletion reaches what is under way.
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

/** In memory of its own: what is kept must not keep its neighbours. */
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
 * What to read around a file whose group lies side by side: one extent that holds it
 * and, within a bound, the members that are not kept yet. Pure.
 */

export interface Placed {
  readonly offset: number;
  readonly size: number;
}

export interface Extent {
  /** First and last member in it. */
  readonly first: number;
  readonly last: number;
  readonly offset: number;
  readonly bytes: number;
}

/**
 * `members` in the order of their offsets, `asked` among them. Those behind come first,
 * as files follow each other in the order they came; what is kept already at either
 * end is left out. The file itself is always in it, however large it is.
 */
export function extentAround(
  members: readonly Placed[],
  asked: number,
  maxBytes: number,
  isKept: (index: number) => boolean,
): Extent {
  let first = asked;
  let last = asked;
  const span = (from: number, to: number): number => endOf(members[to]!) - members[from]!.offset;
  for (let next = asked + 1; next < members.length && span(first, next) <= maxBytes; next += 1) {
    if (!isKept(next)) last = next;
  }
  for (let next = asked - 1; next >= 0 && span(next, last) <= maxBytes; next -= 1) {
    if (!isKept(next)) first = next;
  }
  return { first, last, offset: members[first]!.offset, bytes: span(first, last) };
}

function endOf({ offset, size }: Placed): number {
  return offset + size;
}
