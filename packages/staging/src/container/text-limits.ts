/** Maximum bytes of UTF-8 of a client name, media type and group in a container record. */
export const MAX_FILE_NAME_BYTES = 1024;
export const MAX_TYPE_BYTES = 255;
export const MAX_GROUP_BYTES = 255;
