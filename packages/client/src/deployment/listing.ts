import { type Gateway, isAlive, MapError } from '@stevedore/map';
import { parseKey, StoreError } from '@stevedore/staging';
import { type ListOrder, limitOf, orderOf } from '../listing.js';
import type { FileInfo, FilePage, ListOptions } from '../types.js';
import { latest } from './gateways.js';

/**
 * Lists the files of all servers of a deployment. Every server lists its own, staged and merged,
 * from its FileMap, so a file that is merged meanwhile is not missed. The pages are merged in the
 * order of the listing, up to the first of their cursors: beyond it, a server may have files that it
 * has not listed yet. The page names the servers that could not be asked.
 */

type Asked = ListOptions & { readonly limit: number };

export interface DeploymentListing {
  /** Lists the files of this server and its workers. */
  readonly here: (options: ListOptions) => Promise<FilePage>;
  /** True for an origin whose files `here` lists. */
  readonly isHere: (origin: number) => boolean;
  /** URL at which others reach this server; empty if they cannot. */
  readonly ownUrl: string;
  /** Rejects with `MapError`. */
  readonly gateways: () => Promise<readonly Gateway[]>;
  readonly ask: (url: string, options: Asked) => Promise<FilePage>;
  /** Known here to be deleted; its own server may not know yet. */
  readonly isRemoved: (key: Buffer) => boolean;
}

/** Maximum files of all pages together, unless that is too few for each of them. */
const MAX_HELD_FILES = 20_000;
const MIN_FILES_EACH = 20;
const ASKED_AT_ONCE = 32;

/** Rejects as `listFiles`, and with `storage_unavailable` if the map has never answered. */
export async function listDeployment(
  options: ListOptions,
  { here, isHere, ownUrl, gateways, ask, isRemoved }: DeploymentListing,
): Promise<FilePage> {
  const limit = limitOf(options);
  const order = orderOf(options);
  const { urls, away } = serversToAsk(await listed(gateways), isHere, ownUrl);
  const each = Math.max(MIN_FILES_EACH, Math.floor(MAX_HELD_FILES / (urls.size + 1)));
  const asked: Asked = { ...options, limit: Math.min(limit, each) };
  const pages = [await here(asked)];
  const queue = urls.entries();
  const worker = async (): Promise<void> => {
    for (const [url, origins] of queue) {
      try {
        const page = await ask(url, asked);
        if (!isSound(page, asked, order)) throw new Error(`${url} sent something else than a page`);
        pages.push(page);
      } catch {
        away.push(...origins);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(ASKED_AT_ONCE, urls.size) }, worker));
  const { files, next } = mergePages(pages, limit, order);
  return {
    files: files.filter(({ key }) => !isRemoved(parseKey(key)!)),
    ...(next === undefined ? {} : { next }),
    ...(away.length === 0 ? {} : { away: away.sort((a, b) => a - b) }),
  };
}

async function listed(gateways: () => Promise<readonly Gateway[]>): Promise<readonly Gateway[]> {
  try {
    return await gateways();
  } catch (error) {
    if (!(error instanceof MapError)) throw error;
    const message = `the map does not say which servers there are: ${error.message}`;
    throw new StoreError('storage_unavailable', message, { cause: error, retryable: true });
  }
}

/** By URL the origins that it serves, and the origins that cannot be asked. */
function serversToAsk(
  gateways: readonly Gateway[],
  isHere: (origin: number) => boolean,
  ownUrl: string,
): { readonly urls: ReadonlyMap<string, readonly number[]>; readonly away: number[] } {
  const urls = new Map<string, number[]>();
  const away: number[] = [];
  const now = latest(gateways);
  for (const gateway of gateways) {
    const { origin, url, adoption } = gateway;
    // The server that has adopted its files lists them.
    if (isHere(origin) || adoption?.isDone) continue;
    if (adoption || url === null || url === ownUrl || !isAlive(gateway, now)) away.push(origin);
    else urls.set(url, [...(urls.get(url) ?? []), origin]);
  }
  return { urls, away };
}

/** Pages that begin after the same key, as one of at most `limit` files. */
function mergePages(pages: readonly FilePage[], limit: number, { compare }: ListOrder): FilePage {
  const [end] = pages
    .flatMap(({ next }) => (next === undefined ? [] : [parseKey(next)!]))
    .sort(compare);
  const sorted = pages
    .flatMap(({ files }) => files.map((file) => ({ file, key: parseKey(file.key)! })))
    .filter(({ key }) => !end || compare(key, end) <= 0)
    .sort((a, b) => compare(a.key, b.key));
  const files: FileInfo[] = sorted.slice(0, limit).map(({ file }) => file);
  if (sorted.length > limit) return { files, next: files.at(-1)!.key };
  return { files, ...(end ? { next: end.toString('base64url') } : {}) };
}

/** True if the page can be merged: not too long, in order, and going on after the cursor. */
function isSound(
  { files, next }: FilePage,
  { after, limit }: Asked,
  { compare, first }: ListOrder,
): boolean {
  const begin = after === undefined ? first : Buffer.from(after, 'base64url');
  let last: Uint8Array = begin;
  for (const file of files) {
    const key = parseKey(file.key);
    if (!key || compare(key, last) <= 0) return false;
    last = key;
  }
  if (files.length > limit) return false;
  const end = next === undefined ? undefined : parseKey(next);
  if (!end) return next === undefined;
  return compare(end, last) >= 0 && compare(end, begin) > 0;
}
