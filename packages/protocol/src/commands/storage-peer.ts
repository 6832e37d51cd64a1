import { ProtocolError } from '../bytes.js';
import { CommandCode, MAX_NAME_BYTES } from '../constants.js';
import {
  type BodyOf,
  type Codec,
  counted,
  i32,
  length,
  record,
  size,
  tail,
  u8,
} from '../layout.js';
import { command, group, nothing, payloadCommand } from './shared.js';

/**
 * How a storage passes its changes on to the other members of its group. The group field of
 * the C programs holds old memory behind its NUL.
 */

const change = {
  /** When the change was made at its source, unix seconds. */
  atSeconds: i32,
  group,
  /** `M00/3F/A2/...` */
  name: counted(MAX_NAME_BYTES),
};

/** A whole file, or with the header status `ALREADY_THERE` only the news of one. */
const syncFile = record({ '#name': length, size, ...change }, 'a whole file');
export type SyncFile = BodyOf<typeof syncFile>;

/** Header status of a SYNC_CREATE_FILE or SYNC_UPDATE_FILE that brings no content. */
export const ALREADY_THERE = 17;

/** STORAGE_SYNC_CREATE_FILE (16) */
export const syncCreateFile = payloadCommand(
  'STORAGE_SYNC_CREATE_FILE',
  CommandCode.syncCreateFile,
  syncFile,
  nothing,
);

/** STORAGE_SYNC_UPDATE_FILE (18): replaces a whole file; metadata, for the most part. */
export const syncUpdateFile = payloadCommand(
  'STORAGE_SYNC_UPDATE_FILE',
  CommandCode.syncUpdateFile,
  syncFile,
  nothing,
);

/** A part of a file; its bytes follow. */
const syncPart = record({ '#name': length, offset: size, size, ...change }, 'a part of a file');
export type SyncPart = BodyOf<typeof syncPart>;

/** STORAGE_SYNC_APPEND_FILE (25): status 2 asks for the whole file, 17 is done already. */
export const syncAppendFile = payloadCommand(
  'STORAGE_SYNC_APPEND_FILE',
  CommandCode.syncAppendFile,
  syncPart,
  nothing,
);

/** STORAGE_SYNC_MODIFY_FILE (35) */
export const syncModifyFile = payloadCommand(
  'STORAGE_SYNC_MODIFY_FILE',
  CommandCode.syncModifyFile,
  syncPart,
  nothing,
);

const syncTruncation = record(
  { '#name': length, oldSize: size, newSize: size, ...change },
  'a truncation',
);
export type SyncTruncation = BodyOf<typeof syncTruncation>;

/** STORAGE_SYNC_TRUNCATE_FILE (37): status 17 for another old size. */
export const syncTruncateFile = command(
  'STORAGE_SYNC_TRUNCATE_FILE',
  CommandCode.syncTruncateFile,
  syncTruncation,
  nothing,
);

/** STORAGE_SYNC_DELETE_FILE (17): status 2 if it is not there. */
export const syncDeleteFile = command(
  'STORAGE_SYNC_DELETE_FILE',
  CommandCode.syncDeleteFile,
  record({ ...change, name: tail(1, MAX_NAME_BYTES) }),
  nothing,
);

/** `name` comes to lead to `source`, or to be what `source` was. */
const syncPair = record(
  { '#name': length, '#source': length, ...change, source: counted(MAX_NAME_BYTES) },
  'a pair of names',
);
export type SyncPair = BodyOf<typeof syncPair>;

/** STORAGE_SYNC_CREATE_LINK (19) */
export const syncCreateLink = command(
  'STORAGE_SYNC_CREATE_LINK',
  CommandCode.syncCreateLink,
  syncPair,
  nothing,
);

/** The C storage sends the request back when it succeeds. */
const anything: Codec<undefined> = { encode: nothing.encode, decode: () => undefined };

/** STORAGE_SYNC_RENAME_FILE (40): status 2 asks for the whole file. */
export const syncRenameFile = command(
  'STORAGE_SYNC_RENAME_FILE',
  CommandCode.syncRenameFile,
  syncPair,
  anything,
);

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
