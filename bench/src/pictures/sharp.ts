import { createRequire } from 'node:module';

/** sharp as `@stevedore/pictures` has it: one version for all, and no dependency of its own here. */

const require = createRequire(import.meta.resolve('@stevedore/pictures'));

export interface Box {
  readonly width: number;
  readonly height: number;
}

/** Of the pictures that are asked for, in the shape of the original. */
export const SIZES: readonly Box[] = [
  { width: 320, height: 240 },
  { width: 640, height: 480 },
];

/** As much of it as is used here. */
export interface Sharp {
  autoOrient(): Sharp;
  resize(options: Box & { readonly fit: string; readonly withoutEnlargement?: boolean }): Sharp;
  jpeg(options: { readonly quality: number; readonly progressive?: boolean }): Sharp;
  raw(): Sharp;
  metadata(): Promise<Box & { readonly format: string }>;
  toBuffer(): Promise<Buffer>;
}

interface Raw {
  readonly raw: Box & { readonly channels: number };
}

interface Open {
  (bytes: Uint8Array, options?: Raw | { readonly failOn: string }): Sharp;
  readonly versions: { readonly sharp: string };
}

export function loadSharp(): Open {
  return require('sharp') as Open;
}
