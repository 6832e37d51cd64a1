import { createHash } from 'node:crypto';
import { MAX_GROUP_BYTES } from '@stevedore/staging/text-limits';

/**
 * Affinity groups predict from an upload request which files will be read together. Files of one
 * group lie side by side in one trunk. Ready-made functions group by the page that sent the
 * request, by form and by path; an application may pass its own. All are pure. None fails a
 * request: a function that throws, or returns anything but text, gives no group.
 */

/** The parts of an upload request that decide its group; Express and Fastify requests fit. */
export interface AffinityRequest {
  /** Path and query, as in the request line. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The same for all parts of a form, and unique to it; absent for a raw body. */
  readonly form?: string | undefined;
}

export type AffinityFunction = (request: AffinityRequest) => string | undefined;

/**
 * Groups by the host and path of the `Referer`. The query often names a view rather than a page:
 * it is included only with `query`.
 */
export function byPage(options: { readonly query?: boolean } = {}): AffinityFunction {
  return ({ headers }) => {
    const url = parseUrl([headers.referer ?? headers.referrer].flat()[0]);
    if (!url || !/^https?:$/.test(url.protocol)) return undefined;
    return `page ${url.host}${url.pathname}${options.query ? url.search : ''}`;
  };
}

/** Groups the files of one form. */
export function byForm(): AffinityFunction {
  return ({ form }) => (form === undefined || form === '' ? undefined : `form ${form}`);
}

/** Groups by the first `segments` segments of the request's path; shorter paths give no group. */
export function byPathPrefix(segments: number): AffinityFunction {
  if (!Number.isInteger(segments) || segments < 1) {
    throw new RangeError(`segments must be a whole number from 1 on, not ${segments}`);
  }
  return ({ url }) => {
    const parts = parseUrl(url, 'http://local')?.pathname.split('/').filter(Boolean) ?? [];
    if (parts.length < segments) return undefined;
    return `path /${parts.slice(0, segments).join('/')}`;
  };
}

/** The first group that one of the functions returns. */
export function firstOf(...functions: readonly AffinityFunction[]): AffinityFunction {
  return (request) => {
    for (const each of functions) {
      const group = groupOf(each, request);
      if (group !== undefined) return group;
    }
    return undefined;
  };
}

/** A group that `put` accepts: text of bounded length, or undefined. Never throws. */
export function groupOf(affinity: AffinityFunction, request: AffinityRequest): string | undefined {
  let group: unknown;
  try {
    group = affinity(request);
  } catch {
    return undefined;
  }
  if (typeof group !== 'string' || group === '') return undefined;
  return bounded(group);
}

/** Replaces a group that is too long by its digest. */
function bounded(group: string): string {
  if (Buffer.byteLength(group) <= MAX_GROUP_BYTES) return group;
  return `sha256 ${createHash('sha256').update(group).digest('base64url')}`;
}

function parseUrl(text: string | undefined, base?: string): URL | undefined {
  if (text === undefined) return undefined;
  try {
    return new URL(text, base);
  } catch {
    return undefined;
  }
}
