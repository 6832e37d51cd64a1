/**
 * A claim of a paper and what became of it: held by a test, judged by recorded figures, or not
 * attempted, with the reason.
 */

/** The medians of a recorded run. Throws where none was recorded. */
export interface Figure {
  (id: string): number;
  /** Of those that were recorded: a quick run has fewer points. */
  all(ids: readonly string[]): readonly number[];
}

export interface Claim {
  /** Equation, table, figure, or a short name, and what it says. */
  readonly what: string;
  /** The paper's value or words; empty: none. */
  readonly paper: string;
  /** A test that fails without it, below `test/`. */
  readonly test?: string;
  readonly measured?: {
    /** `BENCHMARK/PART`. */
    readonly run: string;
    readonly ours: (figure: Figure) => string;
    readonly holds: (figure: Figure) => boolean;
    /** Its disks, processor or network are models. */
    readonly isModel?: boolean;
    /** Why it does not hold; needed then. */
    readonly why?: string;
  };
  /** What ours does; for a claim that was not measured. */
  readonly ours?: string;
  /** Not attempted, and why. */
  readonly skipped?: string;
}

export interface PaperChart {
  /** Its file is `docs/charts/NAME.svg`. */
  readonly name: string;
  readonly benchmark: string;
  readonly title: string;
  readonly xTitle: string;
  readonly yTitle: string;
  readonly labels: readonly string[];
  /** Ids of figures, and the paper's numbers; null: a gap. */
  readonly series: readonly {
    readonly name: string;
    readonly values: readonly (string | number | null)[];
  }[];
}

export interface Paper {
  readonly title: string;
  readonly claims: readonly Claim[];
  readonly charts: readonly PaperChart[];
}
