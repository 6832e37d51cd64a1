import { command, payloadCommand } from '../command.js';
import { CommandCode, EXTENSION_BYTES, SLAVE_PREFIX_BYTES } from '../constants.js';
import { type BodyOf, counted, length, record, size, text } from '../layout.js';
import { fileName, group } from './shared.js';

/** Files that hang on another one: slaves, stored under its name, and links. */

/** What a name has behind its master's, 1 to 16 of `A-Z a-z 0-9 . _ -`. */
const prefix = text(SLAVE_PREFIX_BYTES);
const extension = text(EXTENSION_BYTES);

const slaveUploadRequest = record({
  '#master': length,
  /** Bytes that follow. */
  size,
  prefix,
  extension,
  /** Name of the master without its group. */
  master: counted(),
});
export type SlaveUploadRequest = BodyOf<typeof slaveUploadRequest>;

/** UPLOAD_SLAVE_FILE (21): stores a file under its master's name and a prefix. */
export const uploadSlaveFile = payloadCommand(
  'UPLOAD_SLAVE_FILE',
  CommandCode.uploadSlaveFile,
  slaveUploadRequest,
  fileName,
);

const linkRequest = record(
  {
    '#master': length,
    '#source': length,
    '#signature': length,
    group,
    prefix,
    extension,
    /** Empty: the link gets a name of its own. */
    master: counted(),
    /** Name of the file the link leads to. */
    source: counted(),
    signature: counted(),
  },
  'CREATE_LINK',
);
export type LinkRequest = BodyOf<typeof linkRequest>;

/** CREATE_LINK (20) */
export const createLink = command('CREATE_LINK', CommandCode.createLink, linkRequest, fileName);
