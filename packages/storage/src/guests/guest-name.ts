import { ENCODED_FIELDS_CHARS } from '@stevedore/protocol';

/**
 * What the bytes of a small file are called at the storage of another group that has
 * taken them in: the fields of the file's own name, so that time, size and CRC-32 can be
 * read from it, and a number that is drawn for every move, so that what is to be deleted
 * there is never what has just come. Whoever has guests does not send them on: what a
 * record points at is the bytes, never another record.
 */

const TAIL = /^g[0-9a-f]{12}\.moved$/;
export const GUEST_NUMBER_BYTES = 6;

/** `name` is `3F/A2/base`; `number` six random bytes. */
export function guestName(name: string, number: Buffer): string {
  const base = name.slice(name.lastIndexOf('/') + 1);
  const directory = name.slice(0, name.lastIndexOf('/') + 1);
  return `M00/${directory}${base.slice(0, ENCODED_FIELDS_CHARS)}g${number.toString('hex')}.moved`;
}

/** True for the last part of the name of a guest. */
export function isGuestBase(base: string): boolean {
  return TAIL.test(base.slice(ENCODED_FIELDS_CHARS));
}

/** Where a guest is: the storage that took it in, and what it is called there. */
export interface GuestPlace {
  readonly group: string;
  readonly id: string;
  /** `M00/3F/A2/base` */
  readonly name: string;
}

/** As records have it: `id group/M00/3F/A2/base`. */
export function placeText({ group, id, name }: GuestPlace): string {
  return `${id} ${group}/${name}`;
}

/** Throws for what `placeText` has not written. */
export function parsePlace(text: string): GuestPlace {
  const match = /^(\S+) ([^/\s]+)\/(M00\/\S+)$/.exec(text);
  if (!match) throw new Error(`"${text}" is no place of a guest`);
  return { id: match[1]!, group: match[2]!, name: match[3]! };
}
