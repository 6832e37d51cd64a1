import { ProtocolError } from '../bytes.js';
import { CommandCode } from '../constants.js';
import { type BodyOf, record, u8 } from '../layout.js';
import { command, group, nothing } from './shared.js';

/**
 * The files of one store path, as a storage lists them for a peer that has lost its
 * disk. The reply's header announces a length that no reply has, because the server
 * does not know it yet; lines of text follow, then the number of their bytes, then the
 * server closes the connection.
 */

/** `i64` behind the last line: bytes of all lines. */
export const LISTING_END_BYTES = 8;
/** Longest line: a time, a letter, two names. */
export const MAX_LISTING_LINE_BYTES = 512;

const filesOfPath = record({ group, storePathIndex: u8 }, 'a request for the files of a path');
export type FilesOfPath = BodyOf<typeof filesOfPath>;

/** FETCH_ONE_PATH_BINLOG (26). Its reply is no body but a listing. */
export const fetchOnePathBinlog = command(
  'FETCH_ONE_PATH_BINLOG',
  CommandCode.fetchOnePathBinlog,
  filesOfPath,
  nothing,
);

export interface ListingLine {
  /** When the file came to be, unix seconds. */
  readonly seconds: number;
  /** Whether the storage itself took the file first, not a peer. */
  readonly isSource: boolean;
  /** `M00/3F/A2/...` */
  readonly name: string;
  /** The file that this one is a link to. */
  readonly linkTo?: string;
}

/** `seconds C|c name` or `seconds L|l name target`, and the end of the line. */
export function encodeListingLine({ seconds, isSource, name, linkTo }: ListingLine): string {
  const letter = linkTo === undefined ? 'C' : 'L';
  const what = isSource ? letter : letter.toLowerCase();
  return `${[seconds, what, name, ...(linkTo === undefined ? [] : [linkTo])].join(' ')}\n`;
}

/** A line without its end. Throws ProtocolError. */
export function decodeListingLine(line: string): ListingLine {
  const match = /^(\d{1,12}) (?:([Cc]) (\S+)|([Ll]) (\S+) (\S+))$/.exec(line);
  if (!match) throw new ProtocolError(`a line "${line.slice(0, 80)}" in a listing`);
  const [, seconds, create, file, link, name, linkTo] = match;
  const letter = create ?? link!;
  const isSource = letter === letter.toUpperCase();
  if (create) return { seconds: Number(seconds), isSource, name: file! };
  return { seconds: Number(seconds), isSource, name: name!, linkTo: linkTo! };
}
