import { parseKey } from '@stevedore/staging';
import type { FilesElsewhere } from '../holders/files-elsewhere.js';
import type { GatewayFiles } from '../holders/gateway-files.js';
import { askAll, othersToAsk } from '../holders/others.js';
import type { FileInfo, ListOptions } from '../store/types.js';
import { inOrder, limitOf, orderOf } from './listing.js';
import type { Page } from './pages.js';

/**
 * Lists the files, or the groups, of all servers of a deployment. Every server lists its own, staged
 * and merged, from its FileMap, so a file that is merged meanwhile is not missed. The pages are
 * merged in their order, up to the first of their cursors: beyond it, a server may have something
 * that it has not listed yet. The page names the servers that could not be asked.
 */

type Asking = Pick<ListOptions, 'after' | 'limit'>;

/** What is listed, and in which order. */
export interface Ordering<What extends string, Item> {
  readonly what: What;
  readonly cursorOf: (item: Item) => string;
  /** Undefined for what is no cursor. */
  readonly positionOf: (cursor: string) => Uint8Array | undefined;
  readonly compare: (one: Uint8Array, other: Uint8Array) => number;
}

/** Throws `invalid_option`. */
export function filesInOrder(options: ListOptions): Ordering<'files', FileInfo> {
  return {
    what: 'files',
    cursorOf: ({ key }) => key,
    positionOf: parseKey,
    compare: inOrder(orderOf(options)),
  };
}

export const GROUPS_IN_ORDER: Ordering<'groups', string> = {
  what: 'groups',
  cursorOf: (group) => group,
  positionOf: (cursor) => Buffer.from(cursor),
  compare: Buffer.compare,
};

/** Maximum items of all pages together, unless that is too few for each of them. */
const MAX_HELD = 20_000;
const MIN_EACH = 20;

/**
 * `here` lists what this server and its workers have. Rejects as it does, and with
 * `storage_unavailable` if the map has never answered.
 */
export async function listDeployment<What extends string, Item, Options extends Asking>(
  options: Options,
  others: FilesElsewhere,
  here: (options: Options) => Promise<Page<What, Item>>,
  ask: (gateway: GatewayFiles, options: Options) => Promise<Page<What, Item>>,
  ordering: Ordering<What, Item>,
): Promise<Page<What, Item>> {
  const limit = limitOf(options);
  const toAsk = await othersToAsk(others);
  const each = Math.max(MIN_EACH, Math.floor(MAX_HELD / (toAsk.urls.size + 1)));
  const asked = { ...options, limit: Math.min(limit, each) };
  const own = await here(asked);
  const { answers, away } = await askAll(toAsk, async (url) => {
    const page = await ask(others.peers.at(url), asked);
    if (isSound(page, asked, ordering)) return page;
    throw new Error(`${url} sent something else than a page`);
  });
  return { ...mergePages([own, ...answers], limit, ordering), ...(away ? { away } : {}) };
}

/** Pages that begin after the same cursor, as one of at most `limit` items. */
function mergePages<What extends string, Item>(
  pages: readonly Page<What, Item>[],
  limit: number,
  { what, cursorOf, positionOf, compare }: Ordering<What, Item>,
): Page<What, Item> {
  const placed = (cursor: string) => ({ cursor, at: positionOf(cursor)! });
  const [end] = pages
    .flatMap(({ next }) => (next === undefined ? [] : [placed(next)]))
    .sort((a, b) => compare(a.at, b.at));
  const sorted = pages
    .flatMap((page) => page[what].map((item) => ({ item, ...placed(cursorOf(item)) })))
    .filter(({ at }) => !end || compare(at, end.at) <= 0)
    .sort((a, b) => compare(a.at, b.at))
    // Several servers may have files of one group.
    .filter(({ at }, index, all) => index === 0 || compare(at, all[index - 1]!.at) !== 0);
  const shown = sorted.slice(0, limit);
  const next = sorted.length > limit ? shown.at(-1) : end;
  const page: object = {
    [what]: shown.map(({ item }) => item),
    ...(next && { next: next.cursor }),
  };
  return page as Page<What, Item>;
}

/** True if the page can be merged: not too long, in order, and going on after the cursor. */
function isSound<What extends string, Item>(
  page: Page<What, Item>,
  { after, limit }: Asking & { readonly limit: number },
  { what, cursorOf, positionOf, compare }: Ordering<What, Item>,
): boolean {
  const begin = after === undefined ? undefined : positionOf(after);
  let last = begin;
  for (const item of page[what]) {
    const at = positionOf(cursorOf(item));
    if (!at || (last && compare(at, last) <= 0)) return false;
    last = at;
  }
  if (page[what].length > limit) return false;
  const end = page.next === undefined ? undefined : positionOf(page.next);
  if (!end) return page.next === undefined;
  return (!last || compare(end, last) >= 0) && (!begin || compare(end, begin) > 0);
}
