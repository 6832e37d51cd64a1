/**
 * What the crash tests leave out, each a promise that Staging does not keep yet. A
 * limit that is set to true is tried; all true is the goal.
 */
export const TRIED = {
  /** A trunk whose `stored` record was refused is removed, though the record may survive. */
  refusedStoredRecord: false,
  /** Records that only a killed process has written, seen by the next, lost with the power. */
  unsyncedRecordsOfKilled: false,
  /** All segments are gone and their numbers are given again. */
  segmentNumbersAgain: false,
  /** The clock is set back between the trunk a file was in and the one it was moved to. */
  clockSetBack: false,
  /** A deleted large file's trunk is retired, its deletion dropped, and the FileMap lost. */
  deletedLargeFiles: false,
  /** The trunk store is away while a lost FileMap is made anew. */
  readsWhileAway: false,
  /** Every file is closed again when creating or removing a segment fails. */
  closedAfterFault: false,
};
