/** How a storage and the other members of its group stand with each other, for who watches it. */

export interface ReplicationStatus {
  /** Members that answer changes without this storage; while there are any it makes none. */
  readonly outFor: readonly string[];
  readonly members: readonly MemberStatus[];
}

export interface MemberStatus {
  readonly id: string;
  /** Changes wait for it (`live`), go on without it (`out`), or may not do so yet (`leaving`). */
  readonly state: 'live' | 'leaving' | 'out';
  readonly isConnected: boolean;
  /** Of this storage's log, what it has not answered. */
  readonly lagBytes: number;
  /** Changes that it would not take. */
  readonly refused: number;
}
