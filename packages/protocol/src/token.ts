import { createHash, timingSafeEqual } from 'node:crypto';

/**
 * Anti-leech tokens of the FastDFS nginx module:
 *
 *     lower-case hex( md5( path without group + secret + decimal(ts) ) )
 *
 * They make links expire. MD5 of a text and a secret is not a strong signature, so do not protect
 * anything else with it.
 */
export interface TokenCheck {
  /** `M00/...`, without the group. */
  readonly name: string;
  readonly token: string;
  /** Unix seconds in the link. */
  readonly timestampSeconds: number;
  readonly secret: string;
  readonly nowSeconds: number;
  readonly lifetimeSeconds: number;
}

const TOKEN = /^[0-9a-f]{32}$/;

export function makeToken(name: string, secret: string, timestampSeconds: number): string {
  return createHash('md5').update(`${name}${secret}${timestampSeconds}`).digest('hex');
}

/** As in the module, timestamp 0 never expires and one in the future is accepted. */
export function checkToken(check: TokenCheck): 'ok' | 'expired' | 'wrong' {
  const { name, token, timestampSeconds, secret, nowSeconds, lifetimeSeconds } = check;
  if (!TOKEN.test(token) || !Number.isSafeInteger(timestampSeconds)) return 'wrong';
  if (timestampSeconds !== 0 && nowSeconds - timestampSeconds > lifetimeSeconds) return 'expired';
  const expected = Buffer.from(makeToken(name, secret, timestampSeconds));
  return timingSafeEqual(expected, Buffer.from(token)) ? 'ok' : 'wrong';
}
