import type { Scale } from '../harness/benchmark.js';

/** How much is measured. */

export interface Plan {
  /** With new processes each. */
  readonly runs: number;
  /** Measurements of every variant in a run, in turns. */
  readonly turns: number;
  /** Length of one measurement: short, so that all variants meet the machine as it is just then. */
  readonly seconds: number;
  /** Before the clock starts, so that code is compiled. */
  readonly warmUpSeconds: number;
  /** Files of one measurement: downloaded again and again, or each once. */
  readonly files: number;
  /** Files that were just uploaded, some of which are asked for far more often than others. */
  readonly popularFiles: number;
}

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: { runs: 5, turns: 4, seconds: 0.5, warmUpSeconds: 2.5, files: 1000, popularFiles: 20_000 },
  quick: { runs: 2, turns: 3, seconds: 0.5, warmUpSeconds: 1.5, files: 1000, popularFiles: 4000 },
  // Each of 200 connections has a file of its own.
  smoke: { runs: 1, turns: 1, seconds: 0.05, warmUpSeconds: 0.05, files: 200, popularFiles: 200 },
};

export const FILE_BYTES = 20_000;

/** Goals are about the median of these. */
export const GOAL_RATIO = 0.9;

/** Of the gateway to node:http: rates of uploads at few connections, and of popular files. */
export const PLAIN_UPLOAD_RATIO = 0.95;
export const PLAIN_DOWNLOAD_RATIO = 1;
/** CPU of an upload, from 20 connections on. */
export const PLAIN_CPU_RATIO = 1.4;

/**
 * plain: node:http. bare: a Fastify app without checks. gateway: as it is started. checked: every
 * check on.
 */
export const VARIANTS = ['plain', 'bare', 'gateway', 'checked'] as const;
export type Variant = (typeof VARIANTS)[number];

/** How often the file of each rank is asked for: rank to the power of minus this. */
export const ZIPF_EXPONENT = 0.9;
/** A cache of so much of the files, in the kind that is larger than memory. */
export const CACHE_SHARE = 0.1;

/** Downloads are of files that are hot, fresh, cold, popular, and more than fit into memory. */
export type Kind =
  | 'upload'
  | 'download'
  | 'download-fresh'
  | 'download-popular'
  | 'download-cold'
  | 'download-beyond';

export const CONNECTIONS: Readonly<Record<Kind, readonly number[]>> = {
  upload: [1, 20, 100, 200],
  download: [20, 100, 200],
  'download-fresh': [20, 100],
  'download-popular': [20, 100],
  'download-cold': [20, 100],
  'download-beyond': [20, 100],
};
