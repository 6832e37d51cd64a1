/** A mistake in the command line: its message is all that the user needs. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
