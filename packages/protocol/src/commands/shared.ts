import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec } from '../command.js';
import { GROUP_BYTES } from '../constants.js';
import { ProtocolError } from '../errors.js';

/** A body of no bytes. */
export const nothing: Codec<undefined> = {
  encode: () => Buffer.alloc(0),
  decode(bytes) {
    if (bytes.length !== 0) throw new ProtocolError(`expected no body, got ${bytes.length} bytes`);
    return undefined;
  },
};

/** A group name and a file name without its group; what most requests name a file by. */
export interface FileName {
  readonly group: string;
  /** `M00/3F/A2/...` */
  readonly name: string;
}

/** `group str(16) | name text` */
export const fileName: Codec<FileName> = {
  encode: ({ group, name }) =>
    new ByteWriter().text(group, GROUP_BYTES, 'group').restText(name).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    return { group: reader.text(GROUP_BYTES, 'group'), name: reader.restText() };
  },
};

/** `group str(16)` */
export const groupOnly: Codec<{ readonly group: string }> = {
  encode: ({ group }) => new ByteWriter().text(group, GROUP_BYTES, 'group').toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const group = reader.text(GROUP_BYTES, 'group');
    reader.end('a group query');
    return { group };
  },
};
