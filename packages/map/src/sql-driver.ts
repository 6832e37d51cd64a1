/**
 * What a map needs of its database. Statements are written once, in what SQLite and PostgreSQL
 * share. Where they differ, they have a word in capitals that the driver replaces.
 */

/** What the driver replaces in every statement. */
export interface Dialect {
  /** Unix milliseconds by the map's clock. */
  readonly NOW: string;
  /** The type of bytes. */
  readonly BYTES: string;
  readonly GREATEST: string;
  readonly LEAST: string;
  /** The position of a text in another one, 0 if it is not there: POSITION(text, part). */
  readonly POSITION: string;
}

export function inDialect(statement: string, dialect: Dialect): string {
  return statement.replace(
    /NOW|BYTES|GREATEST|LEAST|POSITION/g,
    (word) => dialect[word as keyof Dialect],
  );
}

export type Value = string | number | boolean | null | Uint8Array;

/**
 * Rows that a statement reads as `ROWS AS f`, by the names of their columns. A driver may run it for
 * one row after the other.
 */
export interface List {
  readonly columns: Readonly<Record<string, 'bytes' | 'integer' | 'text'>>;
  readonly rows: readonly (readonly Value[])[];
}

export type Row = Readonly<Record<string, unknown>>;

/** What changed, for the gateways that listen. */
export type Topic = (typeof TOPICS)[number];
export const TOPICS = ['gateways', 'removals', 'settings'] as const;

export interface SqlDriver {
  /**
   * Runs a statement with parameters `$1`, `$2`; tolerates that it is run twice. Several statements
   * take effect together, whatever their order, and the rows are those of the last. `topic`: those
   * who listen hear of it, unless the last statement should return rows and returns none.
   */
  run(
    statements: string | readonly string[],
    values?: readonly Value[],
    list?: List,
    topic?: Topic,
  ): Promise<Row[]>;
  /** As `run`, for what another gateway may create at the same moment. */
  create(statement: string): Promise<void>;
  /** Hears what statements of any gateway tell, those of this driver too. */
  listen(onTold: (topic: Topic) => void): void;
  /** False: what others change has to be looked for. */
  readonly isListening: boolean;
  close(): Promise<void>;
}
