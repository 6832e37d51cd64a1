import type { Scale } from '../harness/benchmark.js';

/** How much is measured. */

export interface Plan {
  /** Measurements of each server, in turns. */
  readonly turns: number;
  /** Uploaded anew in every turn, so that each picture has a first request in each. */
  readonly originals: number;
  /** Of repeated requests. */
  readonly seconds: number;
}

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: { turns: 9, originals: 80, seconds: 2 },
  quick: { turns: 5, originals: 32, seconds: 1 },
  smoke: { turns: 1, originals: 3, seconds: 0.05 },
};

export const CONNECTIONS = 8;

export interface Box {
  readonly width: number;
  readonly height: number;
}

export const ORIGINAL: Box = { width: 1600, height: 1200 };
/** In the shape of the original. */
export const SIZES: readonly Box[] = [
  { width: 320, height: 240 },
  { width: 640, height: 480 },
];
/** The gateway's own settings of a JPEG. */
export const JPEG = { quality: 80, progressive: true } as const;

export const KINDS = ['first', 'repeated'] as const;
export type Kind = (typeof KINDS)[number];
export const SERVERS = ['bare', 'gateway'] as const;
export type ServerName = (typeof SERVERS)[number];

/** The least that the gateway's rate is to be, as a multiple of the bare server's. */
export const GOALS: Readonly<Record<Kind, number>> = { first: 0.6, repeated: 10 };
