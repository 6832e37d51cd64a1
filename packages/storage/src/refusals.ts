import { Status } from '@stevedore/protocol';
import { codeOf, StatusError } from '@stevedore/wire';

/** What a storage refuses: errors whose status the client is answered with. */

/** Status 2: there is no such file, slice or metadata. */
export function notFound(what: string): StatusError {
  return new StatusError(Status.notFound, what);
}

/** Status 17: it is here already. */
export function exists(what: string): StatusError {
  return new StatusError(Status.exists, what);
}

/** Status 22: no such request is ever granted. */
export function invalid(why: string): StatusError {
  return new StatusError(Status.invalid, why);
}

/** Status 11: the client retries, here or elsewhere. */
export function tryAgain(why: string): StatusError {
  return new StatusError(Status.tryAgain, why);
}

export function isNotFound(error: unknown): boolean {
  return error instanceof StatusError && error.status === Status.notFound;
}

/** Turns a missing file into status 2; returns any other error unchanged. */
export function asNotFound(error: unknown, path: string): unknown {
  const isMissing = codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR';
  return isMissing ? notFound(path) : error;
}

/** Turns status 2 into undefined. */
export async function ifThere<Found>(looking: Promise<Found>): Promise<Found | undefined> {
  try {
    return await looking;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
