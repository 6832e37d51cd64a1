import { CommandCode, MAX_NAME_BYTES } from '../constants.js';
import { type BodyOf, type Codec, counted, i32, length, record, size, tail } from '../layout.js';
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
