import { ProblemError } from '@stevedore/middleware/core';
import { checkToken } from '@stevedore/protocol';

/**
 * The anti-leech token of FastDFS URLs, as the FastDFS nginx module checks it: a
 * URL without a token is as wrong as one with a false one (400 both, as the module
 * has it), and a `ts` of 0 never ends. It keeps links from being taken elsewhere
 * and is no match for a signed URL.
 */
export interface AntiLeech {
  readonly secret: string;
  readonly ttlMs: number;
}

/** Throws `token_required`, `token_invalid`. `name` is the id without its group. */
export function demandToken(
  name: string,
  query: Readonly<Record<string, unknown>>,
  { secret, ttlMs }: AntiLeech,
  now: number,
): void {
  const { token, ts } = query;
  if (typeof token !== 'string' || typeof ts !== 'string') {
    throw new ProblemError('token_required', 'This path needs the parameters token and ts.');
  }
  const result = /^\d{1,10}$/.test(ts)
    ? checkToken({
        name,
        secret,
        token,
        timestampSeconds: Number(ts),
        nowSeconds: Math.floor(now / 1000),
        lifetimeSeconds: Math.floor(ttlMs / 1000),
      })
    : 'wrong';
  if (result === 'ok') return;
  const message = result === 'expired' ? 'The time of this token is over.' : 'The token is wrong.';
  throw new ProblemError('token_invalid', message);
}
