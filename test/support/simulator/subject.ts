import type { Random } from '../random.js';
import type { Fault, SimulatedDisk } from './disk.js';
import type { CrashMode } from './file.js';

/**
 * What is simulated: a part of the product on a disk in memory, and a ledger of what its clients
 * were told. Crash points, faults and histories are the same for all of them.
 */

/** Whether a read may be refused, as on a disk that fails; wrong bytes never are all right. */
export type Reads = 'must work' | 'may fail';

/**
 * What a start finds undecided. all: after a crash. unanswered: after a crash, once the disk has
 * taken anything since it failed. undeleted, refused: after a fault, which was survived or ended the
 * process before it could take back what it had refused.
 */
export type Undecided = 'all' | 'unanswered' | 'undeleted' | 'refused' | 'none';

export interface Crash {
  readonly mode: CrashMode;
}

/** A machine that can be restarted, and that can crash. */
export interface Host {
  readonly disk: SimulatedDisk;
  readonly isRunning: boolean;
  readonly version: number;
  /** What is refused is noted and all right. */
  isTolerant: boolean;
  /** Called before and after each operation has its effect. */
  onPoint: (what: string) => void;
  start(): Promise<void>;
  /** Ends the process in good order. */
  close(): Promise<void>;
  /** Whether work may end with this error, once the disk has failed. */
  isExcused(error: unknown): boolean;
  /** Ends the process here and now, if it runs. */
  dispose(): void | Promise<void>;
  /**
   * Decides after a start what was undecided, and holds what is there against the ledger, as far as
   * the disk lets it.
   */
  started(undecided: Undecided, crash?: Crash): Promise<void>;
  check(reads?: Reads): Promise<void>;
  /** Works on as if nothing had been, and checks. */
  goOn(): Promise<void>;
  /** Whatever else must be in order between requests. */
  audit(): Promise<void>;
}

/** A small history whose every crash point is tried. */
export interface Script<Of, Options = undefined> {
  readonly name: string;
  readonly options?: Options;
  readonly run: (host: Of) => Promise<void>;
}

export interface Subject<Of extends Host, State, Kind extends Crash, Options = undefined> {
  readonly scripts: readonly Script<Of, Options>[];
  readonly atATime: number;
  /** After each crash point. */
  readonly crashes: readonly Kind[];
  readonly faults: readonly Omit<Fault, 'at'>[];
  /** After faults, in turn. */
  readonly crashesAfterFaults: readonly Kind[];
  /** Points behind a fault at which a crash is tried. */
  readonly crashesBehindFault: number;
  /** Of the whole enumeration. */
  readonly least: { readonly points: number; readonly starts: number; readonly faults: number };
  host(options: Options | undefined, random: Random): Of;
  /** All that outlives a crash at this moment. */
  state(host: Of): State;
  after(state: State, options: Options | undefined, crash: Kind, random: Random): Of;
  /** What a start after the crash finds: crashes that agree in it are the same. */
  situation(state: State, crash: Kind, random: Random): string;
}

// What works on any of them hands a subject nothing but its own hosts, states and crashes.
// biome-ignore lint/suspicious/noExplicitAny: they are of one kind, whichever it is
export type AnySubject = Subject<any, any, any, any>;
export type AnyScript = AnySubject['scripts'][number];
