/**
 * What of a request's URL may stand in a log. Secrets of the query are struck out, API
 * keys wherever they stand, and of a file's key only the part that says when it was made
 * is left: who has a whole key can read the file.
 */

const SECRETS = /([?&][\w-]*(?:key|password|secret|sig|signature|token)=)[^&#]*/gi;
const API_KEYS = /(stv_[A-Za-z0-9]{12}_)[A-Za-z0-9_-]{43}/g;
/** The first 8 characters are the time; what makes a key unguessable comes after them. */
const KEYS = /(?<![\w-])([\w-]{8})[\w-]{13}[AQgw](?![\w-])/g;
/** Characters that nobody has to escape: with escapes none of the above would be found. */
const NEEDLESS_ESCAPES = /%(?:2[df]|3[0-9]|[46][1-9a-f]|[57][0-9a]|5f)/gi;
const MAX_URL_CHARS = 2048;

export function redactUrl(url: string): string {
  return url
    .replace(NEEDLESS_ESCAPES, (escaped) => decodeURIComponent(escaped))
    .replace(SECRETS, '$1***')
    .replace(API_KEYS, '$1***')
    .replace(KEYS, '$1***')
    .slice(0, MAX_URL_CHARS);
}

const FILE_IDS = /[\w-]{1,16}\/M[0-9A-F]{2}\/[0-9A-F]{2}\/[0-9A-F]{2}\/[\w.-]+/gi;

/** Keys and FastDFS ids in a text: who has one can read the file. */
export function redactIds(text: string): string {
  return redactKeys(text.replace(FILE_IDS, '***'));
}

export function redactKeys(text: string): string {
  return text.replace(KEYS, '$1***');
}
