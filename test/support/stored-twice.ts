import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Which files a storage holds in more than one trunk, by the trunks' own directories on its disk. */

/** CRC-32 and size: what the directory of a ZIP file says of a file's bytes. */
export const identityOf = (crc32: number, size: number): string => `${crc32}-${size}`;

/** How often each file is in the trunks below a store path. */
export function storedTimes(storePath: string): Map<string, number> {
  const times = new Map<string, number>();
  for (const entry of readdirSync(storePath, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith('.merged')) continue;
    for (const identity of directoryOf(bytesOf(join(entry.parentPath, entry.name)))) {
      times.set(identity, (times.get(identity) ?? 0) + 1);
    }
  }
  return times;
}

/** None of a trunk that has been deleted since it was listed. */
function bytesOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  }
}

const END_SIGNATURE = 0x06054b50;
const ENTRY_SIGNATURE = 0x02014b50;
const ENTRY_BYTES = 46;

/** The central directory, read by APPNOTE.TXT and not by the product. */
function* directoryOf(zip: Buffer): Generator<string> {
  const end = zip.lastIndexOf(Buffer.from([0x50, 0x4b, 0x05, 0x06]));
  // A trunk that is being written has none yet.
  if (end < 0 || zip.readUInt32LE(end) !== END_SIGNATURE) return;
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left -= 1) {
    if (zip.readUInt32LE(at) !== ENTRY_SIGNATURE) throw new Error(`no entry at ${at}`);
    yield identityOf(zip.readUInt32LE(at + 16), zip.readUInt32LE(at + 24));
    at +=
      ENTRY_BYTES +
      zip.readUInt16LE(at + 28) +
      zip.readUInt16LE(at + 30) +
      zip.readUInt16LE(at + 32);
  }
}
