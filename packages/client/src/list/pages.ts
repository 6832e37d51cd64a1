import { StoreError } from '@stevedore/staging/errors';
import type { FileInfo } from '../store/receipt.js';

/** Listings: pages, and the files or groups of all pages. */

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
  /** True: derived files too, such as pictures in other sizes. */
  readonly derived?: boolean;
  /** True: only files of this server and its workers; asks no other server of the deployment. */
  readonly onlyHere?: boolean;
}

/** Lists only groups that match; `after` is `next` of the previous page. */
export type GroupOptions = Pick<ListOptions, 'nameContains' | 'after' | 'limit' | 'onlyHere'>;

interface PageEnd {
  /** Cursor of the next page; absent at the end. */
  readonly next?: string;
  /**
   * Origins of the servers that could not be asked: the page lacks what they have. Absent if it lacks
   * nothing.
   */
  readonly away?: readonly number[];
}

/** One page of a listing. It may have few files, or none, although more follow. */
export interface FilePage extends PageEnd {
  readonly files: readonly FileInfo[];
}

/** One page of groups. It may have few, or none, although more follow. */
export interface GroupPage extends PageEnd {
  /** Their names, in the order of their bytes in UTF-8. */
  readonly groups: readonly string[];
}

/** `await` gives a page, `for await` the files of all pages from that one on. */
export interface Listing extends Promise<FilePage>, AsyncIterable<FileInfo> {}

/** `await` gives a page, `for await` the groups of all pages from that one on. */
export interface GroupListing extends Promise<GroupPage>, AsyncIterable<string> {}

/** Pages of `files`, or of `groups`. */
export type Page<What extends string, Item> = PageEnd & Readonly<Record<What, readonly Item[]>>;

/** The first page, which is asked for at once, and all items, whose pages are asked for one by one. */
export function listingOf<
  What extends string,
  Item,
  Options extends object,
  Asked extends Page<What, Item>,
>(
  what: What,
  options: Options,
  ask: (options: Options & { readonly after?: string }) => Promise<Asked>,
): Promise<Asked> & AsyncIterable<Item> {
  const first = ask(options);
  const pageAfter = (after: string): Promise<Asked> => ask({ ...options, after });
  return Object.assign(first, {
    [Symbol.asyncIterator]: () => itemsOf<What, Item>(what, first, pageAfter),
  });
}

async function* itemsOf<What extends string, Item>(
  what: What,
  first: Promise<Page<What, Item>>,
  pageAfter: (after: string) => Promise<Page<What, Item>>,
): AsyncGenerator<Item, void, undefined> {
  const away = new Set<number>();
  for (let page = await first; ; ) {
    for (const origin of page.away ?? []) away.add(origin);
    yield* page[what];
    if (page.next === undefined) break;
    page = await pageAfter(page.next);
  }
  if (away.size === 0) return;
  const origins = [...away].sort((a, b) => a - b).join(', ');
  const message = `${what} are missing: servers that may have some do not answer (origins ${origins}); try again later, or list those of this server alone`;
  throw new StoreError('storage_unavailable', message);
}
