import type { Variant } from './variant.js';

/**
 * Messages between a store's process and an encoder's process. Separate from the encoder, whose
 * module loads sharp and answers every message to its process.
 */

export interface EncoderJob {
  readonly bytes: Uint8Array;
  readonly variant: Variant;
  readonly maxPixels: number;
  /** Longest side of the original. */
  readonly maxSidePixels: number;
  readonly maxMemoryBytes: number;
}

export type EncoderFailure = 'picture_unsupported' | 'picture_broken' | 'picture_too_costly';

export type EncoderAnswer =
  | { readonly bytes: Uint8Array }
  | { readonly failure: EncoderFailure; readonly message: string };

/** Exit code of a process that took too much memory. */
export const TOO_MUCH_MEMORY = 70;
