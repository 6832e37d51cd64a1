import type { Figures } from './figures.js';

/** What a benchmark is to reach, and whether its figures reach it. */

export interface Goal {
  readonly id: string;
  /** What is to be reached, for people. */
  readonly goal: string;
  /** Throws where a figure is missing. */
  value(figures: Figures): number;
  isMet(value: number): boolean;
}

export type JudgedGoal = ReturnType<typeof judge>;

type Value = Goal['value'];

/**
 * Of the median of the figure with the goal's id, unless another value is named. The text has the
 * bound where it has `{}`, in percent where it has `{%}`.
 */
type Bounded = (id: string, text: string, bound: number, value?: Value) => Goal;

function bounded(isMet: (reached: number, bound: number) => boolean): Bounded {
  return (id, text, bound, value = medianOf(id)) => ({
    ...{ id, value, isMet: (reached) => isMet(reached, bound) },
    goal: text.replace('{}', bound.toLocaleString('en-US')).replace('{%}', `${100 * bound} %`),
  });
}

export const atLeast = bounded((reached, bound) => reached >= bound);
export const atMost = bounded((reached, bound) => reached <= bound);
export const over = bounded((reached, bound) => reached > bound);

export function medianOf(id: string): Value {
  return (figures) => figures.median(id);
}

/** The least of the figures' medians. */
export function leastOf(ids: readonly string[]): Value {
  return (figures) => Math.min(...ids.map((id) => figures.median(id)));
}

/** The greatest of the figures' medians. */
export function greatestOf(ids: readonly string[]): Value {
  return (figures) => Math.max(...ids.map((id) => figures.median(id)));
}

/** A value of null: it was not measured; `onMissing` hears why. */
export function judge(
  { id, goal, value, isMet }: Goal,
  figures: Figures,
  onMissing: (reason: string) => void,
) {
  try {
    const reached = value(figures);
    return { id, goal, value: reached, met: isMet(reached) };
  } catch (error) {
    onMissing(`goal ${id} was not measured: ${error instanceof Error ? error.message : error}`);
    return { id, goal, value: null, met: false };
  }
}
