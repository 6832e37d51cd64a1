import type { DiskFile, FileStat } from '@stevedore/disk';

/** A file that was opened for reading: whatever would change it is refused. */
export abstract class ReadOnlyFile implements DiskFile {
  abstract stat(): Promise<FileStat>;
  abstract readAt(target: Buffer, position: number): Promise<number>;

  writeAt(): Promise<void> {
    return Promise.reject(readOnly());
  }

  truncate(): Promise<void> {
    return Promise.reject(readOnly());
  }

  setModified(): Promise<void> {
    return Promise.reject(readOnly());
  }

  async sync(): Promise<void> {}

  async close(): Promise<void> {}
}

function readOnly(): Error {
  return Object.assign(new Error('the file was opened for reading'), { code: 'EBADF' });
}
