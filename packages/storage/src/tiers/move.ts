/** What a move of a file is, to whoever makes, watches or ends it. */

/** Points of a move at which a test can end the process. */
export type MoveStep = 'marked' | 'copied' | 'verified' | 'named' | 'switched' | 'deleted';

export type MoveOutcome = 'moved' | 'revoked' | 'refused';

/** A file's content that takes the place of what was there. */
export interface NewContent {
  readonly bytes: Buffer;
  readonly mtimeSeconds: number;
}

/** One that is under way. */
export interface Move {
  readonly isRevoked: boolean;
  /** Called when the move is revoked, for one that would not notice by itself. */
  onRevoke?: () => void;
  /** Nothing is left of it. */
  end(): void;
}
