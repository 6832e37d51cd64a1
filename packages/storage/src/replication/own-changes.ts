import { fileKind, parseFileName } from '@stevedore/protocol';
import { METADATA_SUFFIX } from '../storage/layout.js';
import type { Binlog, Position } from './binlog.js';
import type { LogRecord } from './log-record.js';

/**
 * Names of what was changed here between two places of the log, each once: appenders,
 * metadata, slaves. New files are not among them, which nobody else can have changed, nor
 * what was deleted.
 */
export class OwnChanges implements AsyncIterable<string> {
  readonly #log: Binlog;
  readonly #from: Position;
  readonly #until: Position;

  constructor(log: Binlog, from: Position, until: Position) {
    this.#log = log;
    this.#from = from;
    this.#until = until;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    const told = new Set<string>();
    for (let from = this.#from; from < this.#until; ) {
      const { entries, next } = await this.#log.read(from);
      if (next === from) return;
      from = next;
      for (const { record, end } of entries) {
        const name = end <= this.#until ? changedName(record) : undefined;
        if (name === undefined || told.has(name)) continue;
        told.add(name);
        yield name;
      }
    }
  }
}

function changedName({ operation, own, name, extra }: LogRecord): string | undefined {
  if (!own) return undefined;
  const isMetadata = name.endsWith(METADATA_SUFFIX);
  switch (operation) {
    case 'A':
    case 'M':
    case 'T':
      return name;
    case 'R':
      return extra;
    case 'D':
      return isMetadata ? name : undefined;
    case 'C':
    case 'U':
      return isMetadata || isSlave(name) ? name : undefined;
    case 'L':
      return undefined;
  }
}

function isSlave(name: string): boolean {
  const id = parseFileName('group', name);
  return id !== undefined && fileKind(id) === 'slave';
}
