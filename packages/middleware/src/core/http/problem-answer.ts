import { PROBLEM_TYPE, type ProblemError, problemBody, retryAfterSeconds } from '../problems.js';

/** A problem as an answer: status, headers and the bytes of its JSON. */

export interface ProblemAnswer {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export function problemAnswer(problem: ProblemError): ProblemAnswer {
  const content = problemBody(problem.code, problem.message);
  const body = Buffer.from(JSON.stringify(content));
  const retryAfter = problem.headers['retry-after'] ?? retryAfterSeconds(problem.code);
  return {
    status: content.status,
    headers: {
      ...problem.headers,
      ...(retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }),
      'content-type': PROBLEM_TYPE,
      'content-length': String(body.length),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    },
    body,
  };
}
