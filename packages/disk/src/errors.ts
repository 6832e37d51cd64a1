/** True for an error of the system with this code (`ENOENT`, `ENOSPC`, ...). */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** What Linux calls ENODATA, EBADMSG, EUCLEAN and EREMOTEIO; Node has no names for all of them. */
const MEDIUM_NUMBERS: ReadonlySet<unknown> = new Set([-61, -74, -117, -121]);

/**
 * True for a read that the medium could not answer: a bad sector, or a checksum of the file
 * system that does not match. Not for what the process or the system is short of.
 */
export function isMediumFailure(error: unknown): boolean {
  if (hasCode(error, 'EIO')) return true;
  if (process.platform !== 'linux' || !(error instanceof Error)) return false;
  return 'errno' in error && MEDIUM_NUMBERS.has(error.errno);
}
