import { ProblemError } from '../problems.js';

/**
 * The query of a request, parsed in one way for all who read it: routes, signatures, pictures and
 * downloads. Its names come from strangers, so it has no prototype.
 */

/** A parameter that is given several times has all of its values. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

const NONE: Query = Object.freeze(Object.create(null));

/** Throws `bad_request` for a URL with a fragment, which no client may send. */
export function queryOf(url: string): Query {
  demandNoFragment(url);
  const at = url.indexOf('?');
  return at < 0 ? NONE : parseQuery(url.slice(at + 1));
}

/** Routers disagree on where the query begins behind a `#`. */
export function demandNoFragment(url: string): void {
  if (!url.includes('#')) return;
  throw new ProblemError('bad_request', 'The target of a request has no fragment (#).');
}

/** What follows the `?`. */
export function parseQuery(text: string): Query {
  const query: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of new URLSearchParams(text)) {
    const before = query[name];
    if (before === undefined) query[name] = value;
    else if (typeof before === 'string') query[name] = [before, value];
    else before.push(value);
  }
  return query;
}
