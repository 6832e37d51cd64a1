/** Exit codes, and errors of the person who typed the command. */

export const EXIT_FAILED = 1;
export const EXIT_USAGE = 2;

export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Options that are wrong are the user's doing wherever they are found out. */
export function isUsageError(error: unknown): boolean {
  if (error instanceof UsageError) return true;
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? error.code : undefined;
  return code === 'invalid_option' || error.name === 'OptionError';
}
