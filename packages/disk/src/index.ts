/** The one door to the file system. */
export { decoratedFile } from './decorated-file.js';
export type { Disk, DiskFile, DiskLink, DiskSpace, FileStat } from './disk.js';
export { hasCode, isMediumFailure } from './errors.js';
export { localDisk, privateDisk } from './local-disk.js';
export { readSmallFile, removeIfThere, replaceFile } from './small-files.js';
