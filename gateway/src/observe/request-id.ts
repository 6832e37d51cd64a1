import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/**
 * The name of a request in logs and answers. One that a proxy in front gave is kept if
 * it is well formed: what else is in a header must not get into a log.
 */

const WELL_FORMED = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

export type RequestIds = (request: IncomingMessage) => string;

export function requestIds(): RequestIds {
  const process = randomBytes(6).toString('base64url').replace(/^[_-]/, '0');
  let count = 0;
  return ({ headers }) => {
    const given = headers['x-request-id'];
    if (typeof given === 'string' && WELL_FORMED.test(given)) return given;
    count += 1;
    return `${process}-${count.toString(36)}`;
  };
}
