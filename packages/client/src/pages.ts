import { StoreError } from '@stevedore/staging/errors';
import type { FileInfo } from './receipt.js';

/** Listings: pages, and the files of all pages. */

/** Lists only files that match all of these. */
export interface ListOptions {
  /** Affinity group. */
  readonly group?: string;
  /** Beginning of the name, case-sensitive. */
  readonly namePrefix?: string;
  /** Part of the name, in any case. */
  readonly nameContains?: string;
  /** `image/png`, or `image/*`. */
  readonly type?: string;
  /** The upload began at this time or later. A resumable one may have ended much later. */
  readonly since?: Date;
  /** The upload began before this time. */
  readonly until?: Date;
  readonly minSize?: number;
  readonly maxSize?: number;
  /** Which files come first, by the beginning of their uploads; default `oldest`. */
  readonly order?: 'oldest' | 'newest';
  /** `next` of the previous page, in the same order. */
  readonly after?: string;
  /** Maximum files per page, 1 to 10,000; default 1,000. */
  readonly limit?: number;
  /** True: only files of this server and its workers; asks no other server of the deployment. */
  readonly onlyHere?: boolean;
}

/** One page of a listing. It may have few files, or none, although more follow. */
export interface FilePage {
  readonly files: readonly FileInfo[];
  /** Cursor of the next page; absent at the end. */
  readonly next?: string;
  /**
   * Origins of the servers that could not be asked: the page lacks their files. Absent if it lacks
   * none.
   */
  readonly away?: readonly number[];
}

/** `await` gives a page, `for await` the files of all pages from that one on. */
export interface Listing extends Promise<FilePage>, AsyncIterable<FileInfo> {}

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
