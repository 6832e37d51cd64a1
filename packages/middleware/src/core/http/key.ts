import { ProblemError } from '../problems.js';

/**
 * The grammar of keys: 16 bytes as 22 base64url characters, of which the last
 * one carries two bits. Anything else never reaches the store, which would
 * take a FastDFS id as well.
 */
const KEY = /^[A-Za-z0-9_-]{21}[AQgw]$/;

export function checkKey(text: string): string {
  if (KEY.test(text)) return text;
  throw new ProblemError('invalid_key', 'A key has 22 characters: letters, digits, - and _.');
}
