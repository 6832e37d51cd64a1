/** A move of a file, as those who make and end it see it. */

export type MoveOutcome = 'moved' | 'revoked' | 'refused';

/** A file's content that takes the place of what was there. */
export interface NewContent {
  readonly bytes: Buffer;
  readonly mtimeSeconds: number;
}

/** One that is under way. */
export interface Move {
  readonly isRevoked: boolean;
  /** Nothing is left of it. */
  end(): void;
}
