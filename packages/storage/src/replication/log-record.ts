import { type FileId, parseFileName } from '@stevedore/protocol';
import { DELETED_SUFFIX, METADATA_SUFFIX } from '../layout.js';

/**
 * A line of the binlog, in FastDFS's format:
 *
 *     1795235075 C M00/00/00/fwARA2sBHQOAYxl7AAAAAckDSvY514.txt
 *     seconds    operation and name, and for some operations more after a space
 *
 * A capital letter: a client requested the change here. A small one: another member sent it.
 */

export type Operation = 'C' | 'A' | 'D' | 'U' | 'M' | 'T' | 'L' | 'R';

export interface LogRecord {
  readonly atSeconds: number;
  readonly operation: Operation;
  /** Made here, not received. */
  readonly own: boolean;
  readonly name: string;
  /** A, M: `offset length`; T: `old-size new-size`; L, R: the source's name; else empty. */
  readonly extra: string;
}

const LINE =
  /^(\d{1,10}) ([CADUMTLRcadumtlr]) ([A-Za-z0-9._/-]{1,127})(?: ([A-Za-z0-9._/-]{1,127}(?: \d{1,16})?))?$/;

/** Longer than any line. */
export const MAX_LINE_BYTES = 320;

export function formatRecord({ atSeconds, operation, own, name, extra }: LogRecord): string {
  const letter = own ? operation : operation.toLowerCase();
  return `${atSeconds} ${letter} ${name}${extra === '' ? '' : ` ${extra}`}\n`;
}

/** Parses a line without its newline; undefined if it is malformed. */
export function parseRecord(line: string): LogRecord | undefined {
  const match = LINE.exec(line);
  if (!match) return undefined;
  const [, seconds, letter = '', name = '', extra = ''] = match;
  const operation = letter.toUpperCase();
  return {
    atSeconds: Number(seconds),
    operation: operation as Operation,
    own: letter === operation,
    name,
    extra,
  };
}

/** The two numbers of A, M and T; undefined if the record has others. */
export function numbersOf(record: LogRecord): readonly [number, number] | undefined {
  const match = /^(\d{1,16}) (\d{1,16})$/.exec(record.extra);
  return match ? [Number(match[1]), Number(match[2])] : undefined;
}

/** What a name in the binlog, or in another member's request, stands for. */
export interface LoggedName {
  /** The file itself. */
  readonly id: FileId;
  /** Which part of it. */
  readonly part: 'file' | 'metadata' | 'deleted slices';
}

/** Undefined unless it names a file, or companion, in one of the store paths. */
export function parseLoggedName(
  group: string,
  name: string,
  storePathCount: number,
): LoggedName | undefined {
  const [bare, part] = name.endsWith(METADATA_SUFFIX)
    ? ([name.slice(0, -METADATA_SUFFIX.length), 'metadata'] as const)
    : name.endsWith(DELETED_SUFFIX)
      ? ([name.slice(0, -DELETED_SUFFIX.length), 'deleted slices'] as const)
      : ([name, 'file'] as const);
  const id = parseFileName(group, bare);
  if (!id || id.storePathIndex >= storePathCount) return undefined;
  // A name with two such suffixes stands for nothing.
  if (bare.endsWith(METADATA_SUFFIX) || bare.endsWith(DELETED_SUFFIX)) return undefined;
  return { id, part };
}
