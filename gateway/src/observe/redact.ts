/**
 * What of a request's URL may stand in a log. Secrets of the query are struck out, and
 * of a key only the part that says when it was made is left: who has a whole
 * key can read the file.
 */

const SECRETS = /([?&][\w-]*(?:key|password|secret|sig|signature|token)=)[^&#]*/gi;
/** The first 8 characters are the time; what makes a key unguessable comes after them. */
const KEYS = /(\/files\/[A-Za-z0-9_-]{8})[A-Za-z0-9_-]{14}(?![A-Za-z0-9_-])/g;
const MAX_URL_CHARS = 2048;

export function redactUrl(url: string): string {
  return url.slice(0, MAX_URL_CHARS).replace(SECRETS, '$1***').replace(KEYS, '$1***');
}
