/** What is known of a file: what an upload returns, and what a look-up does. */

/**
 * staged: on this machine's disk. packing: chosen for a trunk that is being sent, or in one that is
 * not full and will be joined with others. merged: in FastDFS in a trunk that stays, `fileId` is
 * known. deleted: of an upload that was sent again, a file that was deleted since.
 */
export type FileState = 'staged' | 'packing' | 'merged' | 'deleted';

export interface Receipt {
  /**
   * 22 characters, a capability: anyone who has it can read the file. In direct mode, the FastDFS
   * id.
   */
  readonly key: string;
  readonly name: string;
  readonly size: number;
  readonly type: string;
  /** A number here; JSON of the gateway, the middleware and the command has 8 hex digits. */
  readonly crc32: number;
  readonly state: FileState;
  readonly stagedAt: Date;
  readonly group?: string;
  readonly expiresAt?: Date;
  /** Key of the file that a derived file, such as a picture in another size, was made of. */
  readonly pictureOf?: string;
  /**
   * The FastDFS id, once merged: a slice id, or a plain id for a large file. In direct mode it is
   * known at once.
   */
  readonly fileId?: string;
  /** Of an upload with a map: machines that had it when it was acknowledged. */
  readonly copies?: 1 | 2;
}

/**
 * waiting: for its trunk to be made. sending: its trunk is being sent. joining: it is in FastDFS, in
 * a trunk that is not full and will be joined with others. retrying: FastDFS did not take the last
 * trunk. damaged: its only copy is damaged, so it is not sent.
 */
export type IdPendingReason = 'waiting' | 'sending' | 'joining' | 'retrying' | 'damaged';

/** Why a file has no FastDFS id yet. */
export interface IdPending {
  readonly reason: IdPendingReason;
  /** When it has its id at the latest. Absent if that is over, or nobody knows. */
  readonly by?: Date;
}

/** The facts of an existing file. */
export interface FileInfo extends Receipt {
  /** Absent once the file has its id. `flush()` does not wait for `by`. */
  readonly idPending?: IdPending;
}

/** In the place of a file that was deleted since its upload. */
export const DELETED: Receipt = Object.freeze({
  key: '',
  name: '',
  size: 0,
  type: '',
  crc32: 0,
  state: 'deleted',
  stagedAt: new Date(0),
});
