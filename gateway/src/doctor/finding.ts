/** Findings of the doctor: one for each check, and what to do about it. */

type Verdict = 'ok' | 'warning' | 'problem';

export interface Finding {
  readonly what: string;
  readonly verdict: Verdict;
  readonly detail: string;
  /** Absent if there is nothing to do. */
  readonly advice?: string;
}

export function ok(what: string, detail: string): Finding {
  return { what, verdict: 'ok', detail };
}

export function warning(what: string, detail: string, advice: string): Finding {
  return { what, verdict: 'warning', detail, advice };
}

export function problem(what: string, detail: string, advice: string): Finding {
  return { what, verdict: 'problem', detail, advice };
}

/** The first case that holds, or that all is well. */
export function judged(
  what: string,
  detail: string,
  ...cases: readonly (readonly [holds: boolean, advice: string, make?: typeof warning])[]
): Finding {
  const found = cases.find(([holds]) => holds);
  if (!found) return ok(what, detail);
  const [, advice, make = warning] = found;
  return make(what, detail, advice);
}
