/** Names and numbers of an I/O server on its disk; FORMAT.md describes them. */

/** In the directory: who this server is. */
export const IDENTITY_FILE = '.stevedore-io-server.json';
export const IDENTITY_VERSION = 1;
/** In the directory: `parts/<owner>/<first two digits of the handle>/<handle>`. */
export const PARTS_DIRECTORY = 'parts';
/** Characters of a handle that name its directory: 256 directories for each owner. */
export const PREFIX_CHARS = 2;
