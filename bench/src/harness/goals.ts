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

export interface JudgedGoal {
  readonly id: string;
  readonly goal: string;
  /** Null: it was not measured. */
  readonly value: number | null;
  readonly met: boolean;
}

type Value = Goal['value'];

/** Of the median of the figure with the goal's id, unless another value is named. */
export function atLeast(id: string, goal: string, bound: number, value = medianOf(id)): Goal {
  return { id, goal, value, isMet: (reached) => reached >= bound };
}

export function atMost(id: string, goal: string, bound: number, value = medianOf(id)): Goal {
  return { id, goal, value, isMet: (reached) => reached <= bound };
}

export function over(id: string, goal: string, bound: number, value = medianOf(id)): Goal {
  return { id, goal, value, isMet: (reached) => reached > bound };
}

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

/** `onMissing` hears why a goal has no value. */
export function judge(
  { id, goal, value, isMet }: Goal,
  figures: Figures,
  onMissing: (reason: string) => void,
): JudgedGoal {
  try {
    const reached = value(figures);
    return { id, goal, value: reached, met: isMet(reached) };
  } catch (error) {
    onMissing(`goal ${id} was not measured: ${error instanceof Error ? error.message : error}`);
    return { id, goal, value: null, met: false };
  }
}
