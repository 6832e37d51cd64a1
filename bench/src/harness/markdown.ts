import type { JudgedGoal } from './goals.js';
import type { Summary } from './statistics.js';

/** Markdown as the benchmarks print it. Pure. */

export type Cell = string | number;

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
  const [first, ...rest] = texts;
  return [line(first!), `| ${rule.join(' | ')} |`, ...rest.map(line)].join('\n');
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
  return `${round(median)} (${round(min)}–${round(max)})`;
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
