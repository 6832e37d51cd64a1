import { crc32 } from 'node:zlib';
import {
  encodeEnd,
  localHeaderBytes,
  mostEntryBytes,
  type SliceEntry,
  type TrunkMember,
  writeDirectoryEntry,
  writeLocalHeader,
} from '@stevedore/protocol';

export interface TrunkOfTest {
  readonly bytes: Buffer;
  readonly entries: SliceEntry[];
}

/** A trunk as the packer writes it; `groups` has the affinity group of each file. */
export function trunkOf(
  contents: readonly Buffer[],
  groups: readonly (string | undefined)[] = [],
): TrunkOfTest {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  const entries: SliceEntry[] = [];
  let at = 0;
  for (const [index, content] of contents.entries()) {
    const group = groups[index];
    const member = {
      name: `${String(index).padStart(22, 'k')}.txt`,
      size: content.length,
      crc32: crc32(content),
      modifiedAt: new Date('2026-01-02T03:04:05Z'),
      comment: JSON.stringify(group === undefined ? {} : { group }),
    };
    const header = localHeaderOf(member);
    directory.push(directoryEntryOf(member, at));
    entries.push({ offset: at + header.length, size: content.length, crc32: member.crc32 });
    parts.push(header, content);
    at += header.length + content.length;
  }
  const table = Buffer.concat(directory);
  parts.push(table, encodeEnd(contents.length, at, table.length, '{"stevedore":1,"taskId":"t"}'));
  return { bytes: Buffer.concat(parts), entries };
}

export function directoryEntryOf(member: TrunkMember, headerOffset: number): Buffer {
  const room = Buffer.alloc(mostEntryBytes(member), 0xff);
  return room.subarray(0, writeDirectoryEntry(room, 0, member, headerOffset));
}

export function localHeaderOf(member: TrunkMember): Buffer {
  const header = Buffer.alloc(localHeaderBytes(Buffer.byteLength(member.name)), 0xff);
  const bytes = writeLocalHeader(header, 0, member);
  return header.subarray(0, bytes);
}
