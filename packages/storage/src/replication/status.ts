/** How far the other members of a storage's group have its log, for who watches it. */

export interface ReplicationStatus {
  readonly members: readonly MemberStatus[];
}

export interface MemberStatus {
  readonly id: string;
  readonly isConnected: boolean;
  /** Of this storage's log, what it has not acknowledged. */
  readonly lagBytes: number;
  /** Changes that it refused. */
  readonly refused: number;
}
