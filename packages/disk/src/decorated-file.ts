import type { DiskFile } from './disk.js';

/**
 * The file with some operations done otherwise: for a disk that counts, delays or
 * fails what another disk does. It writes and syncs in two steps unless told otherwise.
 */
export function decoratedFile(file: DiskFile, changed: Partial<DiskFile>): DiskFile {
  return {
    stat: () => file.stat(),
    readAt: (target, position) => file.readAt(target, position),
    writeAt: (chunks, position) => file.writeAt(chunks, position),
    truncate: (size) => file.truncate(size),
    setModified: (seconds) => file.setModified(seconds),
    sync: () => file.sync(),
    close: () => file.close(),
    ...changed,
  };
}
