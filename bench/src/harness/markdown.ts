import type { Figures, Summary } from './figures.js';
import type { JudgedGoal } from './goals.js';

/** The one writer of tables: Markdown from rows of cells, or from the ids of figures. Pure. */

export type Cell = string | number;

/** A figure as a cell. */
export type Format = (summary: Summary) => string;

/** Heading, what of the row's figures, how; default: the spread. */
export type Column = readonly [head: string, what: string, format?: Format];

/** A cell is the figure `ROW.WHAT`, empty where it was not measured. */
export interface TableSpec {
  /** Of the first column. */
  readonly head: string;
  readonly rows: readonly (readonly [name: string, id: string])[];
  readonly columns: readonly Column[];
  /** Where a cell's figure has another id. */
  readonly id?: (row: string, what: string) => string;
  /** Rows that are known already, behind the measured ones. */
  readonly known?: readonly (readonly Cell[])[];
  /** A chart of the same figures, over the rows. */
  readonly chart?: { readonly title: string; readonly yTitle: string };
}

export interface ChartSpec {
  readonly title: string;
  readonly xTitle: string;
  readonly yTitle: string;
  readonly labels: readonly string[];
  /** Values, or ids of figures: their medians, a gap where one was not measured. */
  readonly series: readonly {
    readonly name: string;
    readonly values: readonly (number | string | null)[];
  }[];
}

/** Throws where nothing was measured: the ids are wrong. */
export function figureTable(figures: Figures, spec: TableSpec): string {
  const { head, rows, columns, known = [], id = idOf } = spec;
  const ids = rows.flatMap(([, row]) => columns.map(([, what]) => id(row, what)));
  if (ids.length > 0 && !ids.some((each) => figures.has(each))) {
    throw new Error(`there is no figure for this table, such as ${ids[0]}`);
  }
  const cells = rows.map(([name, row]) => [
    name,
    ...columns.map(([, what, format = spread]) => {
      const figure = id(row, what);
      return figures.has(figure) ? format(figures.summary(figure)) : '';
    }),
  ]);
  return table([head, ...columns.map(([each]) => each)], [...cells, ...known]);
}

export function chartOf(
  { head, rows, columns, id = idOf }: TableSpec,
  titles: { readonly title: string; readonly yTitle: string },
): ChartSpec {
  const series = columns.map(([name, what]) => ({
    name,
    values: rows.map(([, row]) => id(row, what)),
  }));
  return { ...titles, xTitle: head, labels: rows.map(([name]) => name), series };
}

/** Without `what` the row is one figure. */
function idOf(row: string, what: string): string {
  return what === '' ? row : `${row}.${what}`;
}

/** The first column is text, the others are numbers. */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const texts = [head, ...rows].map((row) => row.map((cell) => textOf(cell)));
  const widths = head.map((_, column) =>
    Math.max(3, ...texts.map((row) => (row[column] ?? '').length)),
  );
  const line = (row: readonly string[]) =>
    `| ${widths.map((width, column) => pad(row[column] ?? '', width, column)).join(' | ')} |`;
  const rule = widths.map((width, column) =>
    column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  );
  const [first = [], ...rest] = texts;
  return [line(first), `| ${rule.join(' | ')} |`, ...rest.map(line)].join('\n');
}

/** Three digits that count. */
export function round(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 || value === 0) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

/** The median, with the least and the greatest behind it. */
export function spread({ median, min, max }: Summary): string {
  return min === max ? round(median) : `${round(median)} (${round(min)}–${round(max)})`;
}

export function middle({ median }: Summary): string {
  return round(median);
}

/** A share, in percent. */
export function percent({ median }: Summary): string {
  return `${round(100 * median)} %`;
}

/** How many percent more than one time. */
export function gain({ median }: Summary): string {
  return (100 * (median - 1)).toFixed(0);
}

export function count(value: number): string {
  return value.toLocaleString('en-US');
}

export function goalsTable(goals: readonly JudgedGoal[]): string {
  return table(
    ['Goal', 'Measured', ''],
    goals.map(({ goal, value, met }) =>
      value === null ? [goal, '', '**not measured**'] : [goal, value, met ? 'met' : '**not met**'],
    ),
  );
}

function textOf(cell: Cell): string {
  return typeof cell === 'number' ? round(cell) : cell;
}

function pad(text: string, width: number, column: number): string {
  return column === 0 ? text.padEnd(width) : text.padStart(width);
}
