import { StoreError } from '@stevedore/staging/errors';
import type { FileInfo, FilePage, Listing, ListOptions } from './types.js';

/** The first page, which is asked for at once, and all files, whose pages are asked for one by one. */
export function listingOf(
  options: ListOptions,
  ask: (options: ListOptions) => Promise<FilePage>,
): Listing {
  const first = ask(options);
  return Object.assign(first, {
    [Symbol.asyncIterator]: () => filesOf(first, (after) => ask({ ...options, after })),
  });
}

async function* filesOf(
  first: Promise<FilePage>,
  pageAfter: (after: string) => Promise<FilePage>,
): AsyncGenerator<FileInfo, void, undefined> {
  const away = new Set<number>();
  for (let page = await first; ; ) {
    for (const origin of page.away ?? []) away.add(origin);
    yield* page.files;
    if (page.next === undefined) break;
    page = await pageAfter(page.next);
  }
  if (away.size === 0) return;
  const origins = [...away].sort((a, b) => a - b).join(', ');
  const message = `files are missing: servers that may have some do not answer (origins ${origins}); try again later, or list those of this server alone`;
  throw new StoreError('storage_unavailable', message, { retryable: true });
}
