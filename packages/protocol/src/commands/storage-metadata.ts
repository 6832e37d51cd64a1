import { ProtocolError, readU8, writeU8 } from '../bytes.js';
import { MAX_METADATA_KEY_BYTES, MAX_METADATA_VALUE_BYTES } from '../constants.js';
import { counted, countedBytes, type Field, length, record, u8 } from '../layout.js';
import { command, fileName, group, nothing, raw } from './shared.js';

/**
 * Metadata: named texts attached to a file. On the wire and on disk it is one text: records
 * separated by 0x01, name and value by 0x02, without escapes.
 */

export type Metadata = Readonly<Record<string, string>>;

/** `overwrite` replaces all metadata; `merge` changes or adds the given names. */
export type MetadataMode = 'overwrite' | 'merge';

const RECORD_SEPARATOR = '\x01';
const FIELD_SEPARATOR = '\x02';
const FLAGS: Readonly<Record<MetadataMode, number>> = { overwrite: 0x4f, merge: 0x4d };

/**
 * Encodes names in byte order, as storages keep them. Throws ProtocolError for what the format
 * cannot hold: a separator in a text, a name over 64 or a value over 256 bytes.
 */
export function encodeMetadata(metadata: Metadata): Buffer {
  const records = Object.entries(metadata).map(([key, value]) => {
    checkText('name', key, MAX_METADATA_KEY_BYTES);
    checkText(`value of ${key}`, value, MAX_METADATA_VALUE_BYTES);
    return { key: Buffer.from(key), text: `${key}${FIELD_SEPARATOR}${value}` };
  });
  records.sort((a, b) => Buffer.compare(a.key, b.key));
  return Buffer.from(records.map(({ text }) => text).join(RECORD_SEPARATOR));
}

/** A record without a separator is a name without a value. */
export function decodeMetadata(bytes: Buffer): Metadata {
  const metadata: Record<string, string> = Object.create(null) as Record<string, string>;
  if (bytes.length === 0) return metadata;
  for (const record of bytes.toString('utf8').split(RECORD_SEPARATOR)) {
    const at = record.indexOf(FIELD_SEPARATOR);
    if (at === -1) metadata[record] = '';
    else metadata[record.slice(0, at)] = record.slice(at + 1);
  }
  return metadata;
}

const mode: Field<MetadataMode> = {
  ...u8,
  write: (writer, value) => writeU8(writer, FLAGS[value]),
  read(reader, name) {
    const flag = readU8(reader, name);
    if (flag === FLAGS.overwrite) return 'overwrite';
    if (flag === FLAGS.merge) return 'merge';
    throw new ProtocolError(`metadata flag ${flag}`);
  },
};

const setMetadataRequest = record(
  {
    '#name': length,
    '#metadata': length,
    mode,
    group,
    name: counted(),
    /** Output of `encodeMetadata`. */
    metadata: countedBytes,
  },
  'SET_METADATA',
);

export const setMetadata = command('SET_METADATA', 13, setMetadataRequest, nothing);

/** The reply is the metadata's text; status 2 if there is none. */
export const getMetadata = command('GET_METADATA', 15, fileName, raw);

function checkText(what: string, text: string, maxBytes: number): void {
  if (Buffer.byteLength(text) > maxBytes) {
    throw new ProtocolError(`metadata ${what} is longer than ${maxBytes} bytes`);
  }
  if (text.includes(RECORD_SEPARATOR) || text.includes(FIELD_SEPARATOR)) {
    throw new ProtocolError(`metadata ${what} holds a separator (0x01 or 0x02)`);
  }
}
