import {
  type List,
  MapError,
  type MapErrorCode,
  type Row,
  type SqlDriver,
  type Topic,
  type Value,
} from '@stevedore/client/internal';
import type { Calls } from './calls.js';

/**
 * The map's database, for the workers of a gateway: the primary has the connections, and listens for
 * all. Each worker runs its statements there.
 */

/** Calls from a worker that the primary answers. */
export type MapCalls = {
  readonly runInMap: (
    statements: string | readonly string[],
    values?: readonly Value[],
    list?: List,
    topic?: Topic,
  ) => Promise<{ readonly rows: Row[]; readonly isListening: boolean }>;
  readonly createInMap: (statement: string) => Promise<void>;
};

/** The primary's side. */
export function answersOf(driver: SqlDriver | undefined): MapCalls {
  const there = (): SqlDriver => {
    if (!driver) throw new Error('the gateway has no map');
    return driver;
  };
  return {
    runInMap: async (...asked) => {
      const rows = await there().run(...asked);
      // A library's rows may have more than their columns.
      return { rows: rows.map((row) => ({ ...row })), isListening: there().isListening };
    },
    createInMap: async (statement) => there().create(statement),
  };
}

/** The worker's side. */
export class WorkerDriver implements SqlDriver {
  readonly #primary: Calls<MapCalls>;
  readonly #listeners: ((topic: Topic) => void)[] = [];
  isListening = false;

  constructor(primary: Calls<MapCalls>) {
    this.#primary = primary;
  }

  async run(...asked: Parameters<SqlDriver['run']>): Promise<Row[]> {
    // The primary's driver ends each statement in time.
    const { rows, isListening } = await asMapError(
      this.#primary.askWithin(0, 'runInMap', ...asked),
    );
    this.isListening = isListening;
    return rows;
  }

  create(statement: string): Promise<void> {
    return asMapError(this.#primary.askWithin(0, 'createInMap', statement));
  }

  listen(onTold: (topic: Topic) => void): void {
    this.#listeners.push(onTold);
  }

  told(topic: Topic): void {
    for (const listener of this.#listeners) listener(topic);
  }

  /** The connections are the primary's. */
  async close(): Promise<void> {
    this.#listeners.length = 0;
  }
}

async function asMapError<Result>(answer: Promise<Result>): Promise<Result> {
  try {
    return await answer;
  } catch (error) {
    const { name, code, message } = error as Error & { readonly code?: MapErrorCode };
    throw name === 'MapError' && code !== undefined
      ? new MapError(code, message, error)
      : new MapError('map_unavailable', message, error);
  }
}
