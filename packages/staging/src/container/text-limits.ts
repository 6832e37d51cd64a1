/** Longest client name, media type and group of a container record, in bytes of UTF-8. */
export const MAX_FILE_NAME_BYTES = 1024;
export const MAX_TYPE_BYTES = 255;
export const MAX_GROUP_BYTES = 255;
