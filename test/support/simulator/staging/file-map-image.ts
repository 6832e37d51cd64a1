import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { FileMap } from '../../../../packages/staging/dist/filemap/filemap.js';
import type { Random } from '../../random.js';
import type { CrashMode } from '../file.js';

/** The files of a FileMap, and what a crash leaves of them. */

/**
 * kept: with every transaction. stale: as it was made durable last. torn: without some
 * of the transactions since. damaged: other bytes. The second and third are what a power
 * failure may do; SQLite does not sync each transaction.
 */
export type FileMapHarm = 'kept' | 'stale' | 'torn' | 'deleted' | 'damaged';

export interface FileMapImage {
  readonly main: Buffer | undefined;
  readonly wal: Buffer | undefined;
  /** Bytes at the log's beginning that a power failure leaves. */
  readonly durableBytes: number;
}

/** A log as it was made durable last. */
interface DurableLog {
  readonly bytes: number;
  /** Two random numbers in its header, others each time that SQLite begins the log anew. */
  readonly salt: Buffer;
}

const SALT_AT = 16;
const SALT_BYTES = 8;
/** By their paths. */
const durableLogs = new Map<string, DurableLog>();
const { makeDurable } = FileMap.prototype;
FileMap.prototype.makeDurable = async function (this: FileMap) {
  const log = durableLogOf(this.logPath);
  await makeDurable.call(this);
  durableLogs.set(this.logPath, log);
};

function durableLogOf(path: string): DurableLog {
  const file = openSync(path, 'r');
  try {
    const salt = Buffer.alloc(SALT_BYTES);
    readSync(file, salt, 0, SALT_BYTES, SALT_AT);
    return { bytes: fstatSync(file).size, salt };
  } finally {
    closeSync(file);
  }
}

export function fileMapImage(folder: string): FileMapImage {
  const read = (suffix: string) => {
    const path = join(folder, `filemap.sqlite${suffix}`);
    return existsSync(path) ? readFileSync(path) : undefined;
  };
  const wal = read('-wal');
  const durable = durableLogs.get(join(folder, 'filemap.sqlite-wal'));
  // Before it begins the log anew, all of it is durable in the main file.
  const salt = wal?.subarray(SALT_AT, SALT_AT + SALT_BYTES);
  const durableBytes = durable && salt && durable.salt.equals(salt) ? durable.bytes : 0;
  return { main: read(''), wal, durableBytes };
}

export function writeFileMap(
  folder: string,
  { main, wal, durableBytes }: FileMapImage,
  harm: FileMapHarm,
  mode: CrashMode,
  random: Random,
): void {
  const path = join(folder, 'filemap.sqlite');
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
  if (!main || harm === 'deleted') return;
  if (harm === 'damaged') {
    writeFileSync(path, Buffer.alloc(main.length, 0xa5));
    return;
  }
  writeFileSync(path, main);
  // Its owner is dead: nobody has to wait for it.
  writeFileSync(join(folder, 'lock'), '');
  if (!wal) return;
  const beyond = wal.length - durableBytes;
  const left = { stale: 0, torn: random.below(beyond + 1), kept: beyond }[harm];
  const log = wal.subarray(0, durableBytes + left);
  writeFileSync(`${path}-wal`, log);
  // What a power failure leaves is on the medium.
  durableLogs.set(`${path}-wal`, {
    bytes: mode === 'killed' ? durableBytes : log.length,
    salt: Buffer.from(log.subarray(SALT_AT, SALT_AT + SALT_BYTES)),
  });
}
