/** The one door to the file system. */

export type { Disk, DiskFile, DiskLink, DiskSpace, FileStat } from './disk.js';
export { decoratedDisk, decoratedFile, hasCode, isMediumFailure } from './disk.js';
export { localDisk, privateDisk } from './local-disk.js';
export { readSmallFile, removeIfThere, replaceFile } from './small-files.js';
