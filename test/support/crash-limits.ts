/**
 * What the crash tests leave out, each a promise that Staging does not keep yet. A
 * limit that is set to true is tried; all true is the goal.
 */
export const TRIED = {
  /** The clock is set back between the trunk a file was in and the one it was moved to. */
  clockSetBack: false,
  /** A deleted large file's trunk is retired, its deletion dropped, and the FileMap lost. */
  deletedLargeFiles: false,
  /** The trunk store is away while a lost FileMap is made anew. */
  readsWhileAway: false,
};
