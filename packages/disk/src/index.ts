/** The only way to the file system for what must survive a crash. */

export type { CreatedNow, Disk, DiskFile, DiskLink, DiskSpace, FileStat } from './disk.js';
export { decoratedDisk, decoratedFile, hasCode, isMediumFailure } from './disk.js';
export { localDisk, privateDisk, storeDisk } from './local-disk.js';
export { slowDisk } from './slow-disk.js';
export { readSmallFile, removeIfThere, replaceFile } from './small-files.js';
