/**
 * Numbers of the trunk format, a plain ZIP whose entries are all stored
 * uncompressed (APPNOTE 6.3.x, sections 4.3.7, 4.3.12 and 4.3.16). TRUNK.md
 * beside this package has the layout.
 */

export const LOCAL_HEADER_SIGNATURE = 0x04034b50;
export const DIRECTORY_ENTRY_SIGNATURE = 0x02014b50;
export const END_SIGNATURE = 0x06054b50;

export const LOCAL_HEADER_BYTES = 30;
export const DIRECTORY_ENTRY_BYTES = 46;
export const END_BYTES = 22;

/** Version 2.0, the least that says "stored". */
export const VERSION_NEEDED = 20;
/** Host system 3 (unix) so that the mode below counts. */
export const VERSION_MADE_BY = (3 << 8) | VERSION_NEEDED;
/** Regular file, rw-r--r--. */
export const EXTERNAL_ATTRIBUTES = ((0o100644 << 16) >>> 0) as number;
/** Bit 11: names and comments are UTF-8. */
export const UTF8_FLAG = 1 << 11;
export const METHOD_STORED = 0;

/** 65,535 announces the 64-bit extension, so a trunk stays one below it. */
export const MAX_ENTRIES = 0xfffe;
/** The format's 32-bit offsets; no trunk comes near. */
export const MAX_TRUNK_BYTES = 0xffff_fffe;
