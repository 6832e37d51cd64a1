import type { TrunkEvent } from '@stevedore/client';
import type { GatewayStore, Topic } from '@stevedore/client/internal';
import type { ReserveInMap } from '../access/ledger.js';
import type { ConsoleState } from '../console/feed.js';
import type { HistoryTable, Span } from '../console/history.js';
import type { GatewayOptions } from '../options.js';
import type { PlainError } from './calls.js';
import type { TakeCalls, WriteCalls } from './handed-trunks.js';
import type { SharedCalls } from './shared.js';
import type { MapCalls } from './shared-map.js';
import type { ProcessFigures } from './totals.js';

/** Messages between primary and workers. */

export interface WorkerStart {
  /** Numbers of the worker's directories; uploads go to the first. */
  readonly own: readonly number[];
  readonly others: readonly number[];
  /** With this worker's share of memory and disk. */
  readonly options: GatewayOptions;
  readonly trackers: readonly string[];
  /** The primary has an embedded node, which takes trunks. */
  readonly hasNode: boolean;
  /** For its maps; undefined without one. */
  readonly spreads: boolean | undefined;
}

export type PrimaryCalls = SharedCalls &
  MapCalls &
  TakeCalls & {
    /** The worker accepts calls. */
    readonly loaded: () => void;
    /** The worker's directories are open; resolves when all other workers know. */
    readonly opened: () => Promise<void>;
    readonly delete: (number: number, key: string) => Promise<boolean>;
    readonly flush: (timeoutMs: number) => Promise<void>;
    readonly metrics: () => Promise<string>;
    readonly console: () => Promise<ConsoleState>;
    readonly history: (span: Span) => HistoryTable;
    readonly trunk: (event: TrunkEvent) => void;
    readonly trouble: (error: PlainError) => void;
    /** The deployment no longer admits the worker's directory. */
    readonly refused: (error: PlainError) => void;
  };

export type WorkerCalls = WriteCalls & {
  /** Resolves with the URL once it serves. */
  readonly start: (start: WorkerStart) => Promise<string>;
  readonly isAlive: () => true;
  /** Something changed in the map. */
  readonly mapTold: (topic: Topic) => void;
  /** A sibling has reopened its directory. */
  readonly lookAgain: () => void;
  /** Deletes a file in a directory of this worker; false if there is none. */
  readonly delete: (number: number, key: string) => Promise<boolean>;
  readonly figures: () => Promise<ProcessFigures>;
  readonly stats: () => ReturnType<GatewayStore['stats']>;
  readonly flush: (timeoutMs: number) => Promise<void>;
  readonly ready: () => ReturnType<GatewayStore['ready']>;
  /** Counts in the map for the whole gateway. */
  readonly reserveUsage: ReserveInMap;
  readonly liveServers: () => number;
  readonly cluster: () => ReturnType<GatewayStore['cluster']>;
  /** As of a gateway. */
  readonly leave: () => Promise<void>;
  readonly close: () => Promise<void>;
};
