import type { ListOptions } from '../store/types.js';

/** The parameters of `GET /files` for a listing, and of `GET /groups`. */
export function listQuery(options: ListOptions): URLSearchParams {
  const { group, namePrefix, type, since, until, minSize, maxSize, after, onlyHere } = options;
  const { nameContains, limit = '', order, derived } = options;
  const given = Object.entries({
    group,
    'name-prefix': namePrefix,
    'name-contains': nameContains,
    type,
    since: since?.toISOString(),
    until: until?.toISOString(),
    'min-size': minSize,
    'max-size': maxSize,
    order,
    after,
    derived,
    'only-here': onlyHere,
  }).filter(([, value]) => value !== undefined);
  return new URLSearchParams([
    ['limit', String(limit)],
    ...given.map(([name, value]) => [name, String(value)] as [string, string]),
  ]);
}
