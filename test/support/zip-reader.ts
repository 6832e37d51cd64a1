import { crc32 } from 'node:zlib';

/** Reads a ZIP from its beginning, as a reader of a stream does: only what stands ahead of the bytes counts. */

export interface ReadEntry {
  readonly name: string;
  readonly size: number;
  readonly bytes: Buffer;
  readonly modifiedAt: Date;
}

const LOCAL_HEADER = 0x04034b50;
const WITH_DESCRIPTOR = 1 << 3;

/** Throws for anything that such a reader cannot know. */
export function readAhead(zip: Buffer): ReadEntry[] {
  const entries: ReadEntry[] = [];
  for (let at = 0; zip.readUInt32LE(at) === LOCAL_HEADER; ) {
    const [flags, method] = [zip.readUInt16LE(at + 6), zip.readUInt16LE(at + 8)];
    if (flags & WITH_DESCRIPTOR || method !== 0)
      throw new Error('the size stands behind the bytes');
    const [nameBytes, extraBytes] = [zip.readUInt16LE(at + 26), zip.readUInt16LE(at + 28)];
    const extraAt = at + 30 + nameBytes;
    const extra = fieldsOf(zip.subarray(extraAt, extraAt + extraBytes));
    const long = extra.get(1);
    const size = long ? Number(long.readBigUInt64LE(0)) : zip.readUInt32LE(at + 18);
    const from = extraAt + extraBytes;
    const bytes = zip.subarray(from, from + size);
    if (crc32(bytes) !== zip.readUInt32LE(at + 14)) throw new Error('another checksum');
    const time = extra.get(0x5455);
    if (time?.[0] !== 1) throw new Error('no time in UTC');
    entries.push({
      name: zip.toString('utf8', at + 30, extraAt),
      size,
      bytes,
      modifiedAt: new Date(time.readUInt32LE(1) * 1000),
    });
    at = from + size;
  }
  return entries;
}

export function fieldsOf(extra: Buffer): ReadonlyMap<number, Buffer> {
  const fields = new Map<number, Buffer>();
  for (let at = 0; at < extra.length; ) {
    const next = at + 4 + extra.readUInt16LE(at + 2);
    fields.set(extra.readUInt16LE(at), extra.subarray(at + 4, next));
    at = next;
  }
  return fields;
}
