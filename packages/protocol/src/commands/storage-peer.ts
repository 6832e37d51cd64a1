import { ProtocolError } from '../bytes.js';
import { MAX_NAME_BYTES } from '../constants.js';
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
 * How a storage syncs its changes to the other members of its group. In messages of the C programs,
 * the group field has stale memory behind its NUL.
 */

const change = {
  /** Time of the change at its source, unix seconds. */
  atSeconds: i32,
  group,
  /** `M00/3F/A2/...` */
  name: counted(MAX_NAME_BYTES),
};

/** A whole file or, with the header status `ALREADY_THERE`, only the notice of one. */
const syncFile = record({ '#name': length, size, ...change }, 'a whole file');
export type SyncFile = BodyOf<typeof syncFile>;

/** Header status of a SYNC_CREATE_FILE or SYNC_UPDATE_FILE without content. */
export const ALREADY_THERE = 17;

export const syncCreateFile = payloadCommand('STORAGE_SYNC_CREATE_FILE', 16, syncFile, nothing);

/** Replaces a whole file, mostly metadata. */
export const syncUpdateFile = payloadCommand('STORAGE_SYNC_UPDATE_FILE', 18, syncFile, nothing);

/** Part of a file; its bytes follow. */
const syncPart = record({ '#name': length, offset: size, size, ...change }, 'a part of a file');
export type SyncPart = BodyOf<typeof syncPart>;

/** Status 2 asks for the whole file, 17 means already applied. */
export const syncAppendFile = payloadCommand('STORAGE_SYNC_APPEND_FILE', 25, syncPart, nothing);

export const syncModifyFile = payloadCommand('STORAGE_SYNC_MODIFY_FILE', 35, syncPart, nothing);

const syncTruncation = record(
  { '#name': length, oldSize: size, newSize: size, ...change },
  'a truncation',
);
export type SyncTruncation = BodyOf<typeof syncTruncation>;

/** Status 17 if the old size differs. */
export const syncTruncateFile = command('STORAGE_SYNC_TRUNCATE_FILE', 37, syncTruncation, nothing);

/** Status 2 if there is no such file. */
export const syncDeleteFile = command(
  'STORAGE_SYNC_DELETE_FILE',
  17,
  record({ ...change, name: tail(1, MAX_NAME_BYTES) }),
  nothing,
);

/** Links `name` to `source`, or renames `source` to `name`. */
const syncPair = record(
  { '#name': length, '#source': length, ...change, source: counted(MAX_NAME_BYTES) },
  'a pair of names',
);
export type SyncPair = BodyOf<typeof syncPair>;

export const syncCreateLink = command('STORAGE_SYNC_CREATE_LINK', 19, syncPair, nothing);

/** On success, the C storage echoes the request. */
const anything: Codec<undefined> = { encode: nothing.encode, decode: () => undefined };

/** Status 2 asks for the whole file. */
export const syncRenameFile = command('STORAGE_SYNC_RENAME_FILE', 40, syncPair, anything);

/**
 * A listing: the files of one store path, as a storage lists them for a peer that has lost its
 * disk. The reply's header announces OPEN_BODY_BYTES, because the server does not know the length
 * yet. Lines of text follow, then their byte count; then the server closes the connection.
 */

/** An `i64` after the last line: bytes of all lines. */
export const LISTING_END_BYTES = 8;
/** Longest line: a time, a letter, two names. */
export const MAX_LISTING_LINE_BYTES = 512;

const filesOfPath = record({ group, storePathIndex: u8 }, 'a request for the files of a path');
export type FilesOfPath = BodyOf<typeof filesOfPath>;

/** The reply is a listing. */
export const fetchOnePathBinlog = command('FETCH_ONE_PATH_BINLOG', 26, filesOfPath, nothing);

export interface ListingLine {
  /** Creation time, unix seconds. */
  readonly seconds: number;
  /** Whether a client uploaded it to this storage, not a peer. */
  readonly isSource: boolean;
  /** `M00/3F/A2/...` */
  readonly name: string;
  /** The target, if this file is a link. */
  readonly linkTo?: string;
}

/** `seconds C|c name` or `seconds L|l name target`, and a line feed. */
export function encodeListingLine({ seconds, isSource, name, linkTo }: ListingLine): string {
  const letter = linkTo === undefined ? 'C' : 'L';
  const what = isSource ? letter : letter.toLowerCase();
  return `${[seconds, what, name, ...(linkTo === undefined ? [] : [linkTo])].join(' ')}\n`;
}

/** Decodes a line without its line feed. Throws ProtocolError. */
export function decodeListingLine(line: string): ListingLine {
  const [, seconds, letter = '', name, linkTo] =
    /^(\d{1,12}) ([CcLl]) (\S+)(?: (\S+))?$/.exec(line) ?? [];
  if (name === undefined || /l/i.test(letter) !== (linkTo !== undefined)) {
    throw new ProtocolError(`a line "${line.slice(0, 80)}" in a listing`);
  }
  const isSource = letter === letter.toUpperCase();
  return { seconds: Number(seconds), isSource, name, ...(linkTo !== undefined && { linkTo }) };
}
