import type { Operation } from './log-record.js';

/**
 * One change of stored files on its way: where it is written down and what time it
 * carries. The code that makes it does not know whether it came from a client or from
 * another member of the group.
 *
 * What alters or removes something is noted before it is done, so that no crash
 * leaves an altered file that the log does not know; a member that reads the log
 * looks at the file itself and finds out whether it was done. A new file, which
 * is not known yet, is noted once it is there.
 */
export interface Change {
  /** Unix seconds of the change: what the first call gives, later than `after`. */
  seconds(after?: number): number;
  /** Writes it down; durable when it resolves. */
  note(operation: Operation, name: string, extra?: string): Promise<void>;
}
