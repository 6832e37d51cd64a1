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
