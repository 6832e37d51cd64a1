import { command, payloadCommand } from '../command.js';
import { CommandCode } from '../constants.js';
import { type BodyOf, counted, length, record, size, tail } from '../layout.js';
import { fileName, nothing } from './shared.js';
import { uploadFile } from './storage-file.js';

/**
 * Appender files: files that may grow, be overwritten in part, and be cut. Their group is not
 * sent: the storage knows its own.
 */

/** UPLOAD_APPENDER_FILE (23): as UPLOAD_FILE, for a file that may change later. */
export const uploadAppenderFile = {
  ...uploadFile,
  name: 'UPLOAD_APPENDER_FILE',
  code: CommandCode.uploadAppenderFile,
};

const appendRequest = record({
  '#name': length,
  /** Bytes to append, which follow. */
  size,
  /** `M00/3F/A2/...` */
  name: counted(),
});
export type AppendRequest = BodyOf<typeof appendRequest>;

/** APPEND_FILE (24) */
export const appendFile = payloadCommand(
  'APPEND_FILE',
  CommandCode.appendFile,
  appendRequest,
  nothing,
);

const modifyRequest = record({
  '#name': length,
  /** Where the bytes go; at most the present size. */
  offset: size,
  size,
  name: counted(),
});
export type ModifyRequest = BodyOf<typeof modifyRequest>;

/** MODIFY_FILE (34): overwrites from `offset` on; writing past the end extends the file. */
export const modifyFile = payloadCommand(
  'MODIFY_FILE',
  CommandCode.modifyFile,
  modifyRequest,
  nothing,
);

const truncateRequest = record(
  {
    '#name': length,
    /** Bytes the file shall have; more than it has fills with zeros. */
    size,
    name: counted(),
  },
  'TRUNCATE_FILE',
);
export type TruncateRequest = BodyOf<typeof truncateRequest>;

/** TRUNCATE_FILE (36) */
export const truncateFile = command(
  'TRUNCATE_FILE',
  CommandCode.truncateFile,
  truncateRequest,
  nothing,
);

/** REGENERATE_APPENDER_FILENAME (38): the appender becomes a normal file of another name. */
export const regenerateAppender = command(
  'REGENERATE_APPENDER_FILENAME',
  CommandCode.regenerateAppenderFilename,
  record({ name: tail() }),
  fileName,
);
