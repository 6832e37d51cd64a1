import { makeToken } from '@stevedore/protocol';
import { invalid } from './body.js';
import { checkFileId } from './operations/context.js';

/** Links to the FastDFS nginx module with its anti-leech token. */

export interface SignedUrlOptions {
  /** Where the module serves, `https://files.example.com` or with a path. */
  readonly baseUrl: string;
  /** `http.anti_steal.secret_key` of the module. */
  readonly secret: string;
  /** Unix seconds from which the module counts the lifetime; 0 never ends. Default now. */
  readonly timestampSeconds?: number | undefined;
  /** Name under which a browser saves the file. */
  readonly fileName?: string | undefined;
}

/** Throws FastdfsError `invalid_argument`. */
export function signedUrl(fileId: string, options: SignedUrlOptions): string {
  const id = checkFileId('signedUrl', fileId);
  const { baseUrl, secret, fileName, timestampSeconds = Math.floor(Date.now() / 1000) } = options;
  if (!Number.isSafeInteger(timestampSeconds) || timestampSeconds < 0) {
    throw invalid('signedUrl', `timestampSeconds is ${timestampSeconds}`);
  }
  if (!URL.canParse(baseUrl)) throw invalid('signedUrl', `baseUrl "${baseUrl}"`);
  const url = new URL(baseUrl);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${fileId}`;
  url.searchParams.set('token', makeToken(id.name, secret, timestampSeconds));
  url.searchParams.set('ts', String(timestampSeconds));
  if (fileName !== undefined) url.searchParams.set('filename', fileName);
  return url.href;
}
