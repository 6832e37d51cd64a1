import { randomBytes } from 'node:crypto';
import {
  type FileInfo,
  type FilePage,
  type GroupOptions,
  type GroupPage,
  type ListOptions,
  StoreError,
} from '@stevedore/client';
import { type Gateway, MapError } from '@stevedore/map';
import { describe, expect, it } from 'vitest';
import {
  type DeploymentListing,
  filesInOrder,
  GROUPS_IN_ORDER,
  listDeployment,
} from '../../../packages/client/dist/deployment/listing.js';
import { Random } from '../../support/random.js';

/** One listing of the files of several servers, some of which do not answer, or wrongly. */

const NOW = 1_700_000_000_000;
const ANSWERS = (page: FilePage): FilePage => page;

function file(random: Random, origin: number, at = random.below(50)): FileInfo {
  const key = randomBytes(16);
  key.writeUIntBE(NOW + at, 0, 6);
  key.writeUInt16BE(origin, 6);
  const about = { name: '', type: 'text/plain', size: 1, crc32: 0, state: 'staged' } as const;
  return { ...about, key: key.toString('base64url'), stagedAt: new Date(NOW) };
}

type Order = ListOptions['order'];

function inOrder(files: readonly FileInfo[], order: Order = 'oldest'): string[] {
  const keys = files.map(({ key }) => key);
  return keys.sort((one, other) => (isBehind(one, other, order) ? 1 : -1));
}

/** As a store lists them, which looks at a bounded number of rows. */
function pageOf(
  files: readonly FileInfo[],
  { after, order, limit: most = 1000 }: ListOptions,
  rows = 1000,
): FilePage {
  const limit = Math.min(most, rows);
  const keys = inOrder(files, order);
  const begin = after === undefined ? 0 : keys.findIndex((key) => isBehind(key, after, order));
  if (begin === -1) return { files: [] };
  const shown = keys.slice(begin, begin + limit).map((key) => files.find((f) => f.key === key)!);
  const isLast = begin + limit >= keys.length;
  return { files: shown, ...(isLast ? {} : { next: shown.at(-1)!.key }) };
}

function isBehind(key: string, other: string, order: Order): boolean {
  const compared = Buffer.compare(Buffer.from(key, 'base64url'), Buffer.from(other, 'base64url'));
  return order === 'newest' ? compared < 0 : compared > 0;
}

function gateway(origin: number, changes: Partial<Gateway> = {}): Gateway {
  const staged = { files: 0, bytes: 0 };
  const url = `http://${origin}`;
  const row = { origin, url, place: 'x', seenAt: NOW, staged };
  return { ...row, holder: undefined, adoption: undefined, ...changes };
}

interface Scene {
  readonly servers: readonly (readonly FileInfo[])[];
  readonly gateways?: readonly Gateway[];
  readonly answer?: (page: FilePage, url: string) => FilePage;
  /** Rows that the first server looks at for a page; each of the others one more. */
  readonly rows?: number;
}

/** This server is of origin 1; server n is of origin n + 1. */
function scene(wanted: Scene) {
  const { servers, gateways, answer = ANSWERS, rows = 1000 } = wanted;
  const asked: string[] = [];
  const parts: DeploymentListing<ListOptions, FilePage> = {
    here: async (options) => pageOf(servers[0]!, options, rows),
    isHere: (origin) => origin === 1,
    ownUrl: 'http://1',
    gateways: async () => gateways ?? servers.map((_, index) => gateway(index + 1)),
    ask: async (url, options) => {
      asked.push(url);
      const index = Number(url.slice(7)) - 1;
      return answer(pageOf(servers[index]!, options, rows + index), url);
    },
  };
  const list = async (options: ListOptions = {}) =>
    listDeployment(options, parts, filesInOrder(options));
  return { list, parts, asked };
}

async function walk(
  list: (options: ListOptions) => Promise<FilePage>,
  limit: number,
  order: 'oldest' | 'newest',
) {
  const pages: FilePage[] = [];
  for (let after: string | undefined; ; ) {
    const page = await list({ limit, order, ...(after === undefined ? {} : { after }) });
    pages.push(page);
    // Every page goes on, or the walk would not end.
    if (page.next === undefined) return pages;
    expect(after === undefined || isBehind(page.next, after, order)).toBe(true);
    after = page.next;
  }
}

function servers(random: Random, count: number, most: number): FileInfo[][] {
  return Array.from({ length: count }, (_, index) =>
    Array.from({ length: random.below(most + 1) }, () => file(random, index + 1)),
  );
}

describe('the pages of several servers', () => {
  it.each([1, 2, 3, 4, 5, 6])('have every file once, in order (seed %i)', async (seed) => {
    const random = new Random(seed);
    const all = servers(random, 1 + random.below(6), 60);
    const ways = [1, 3, 20, 1000].flatMap((limit) =>
      [1, 4, 1000].flatMap((rows) =>
        (['oldest', 'newest'] as const).map((order) => ({ limit, rows, order })),
      ),
    );
    for (const { limit, rows, order } of ways) {
      const { list } = scene({ servers: all, rows });
      const pages = await walk(list, limit, order);
      for (const { files, away } of pages) {
        expect(files.length).toBeLessThanOrEqual(limit);
        expect(away).toBeUndefined();
      }
      expect(pages.flatMap(({ files }) => files.map(({ key }) => key))).toEqual(
        inOrder(all.flat(), order),
      );
    }
  });

  it('end before what a server has not looked at yet', async () => {
    const random = new Random(7);
    const [first, last, seen] = [file(random, 1, 1), file(random, 1, 3), file(random, 2, 2)];
    // It has looked at one file, which does not match.
    const answer = (): FilePage => ({ files: [], next: seen.key });
    const { list } = scene({ servers: [[first, last], []], answer });
    expect(await list()).toEqual({ files: [first], next: seen.key });
  });

  it('hold a bounded number of files, however many servers there are', async () => {
    const limits: number[] = [];
    const { parts } = scene({ servers: Array.from({ length: 101 }, () => []) });
    const ask = async (_: string, { limit }: { readonly limit: number }): Promise<FilePage> => {
      limits.push(limit);
      return { files: [] };
    };
    await listDeployment({ limit: 10_000 }, { ...parts, ask }, filesInOrder({}));
    expect(limits).toEqual(Array.from({ length: 100 }, () => 198));
  });
});

it.each([1, 2, 3])('the pages of groups have every group once (seed %i)', async (seed) => {
  const random = new Random(seed);
  // In UTF-16, the last two are in the other order.
  const names = ['1', '10', '2', 'a', 'ä', '～', '😀'];
  const all = Array.from({ length: 1 + random.below(4) }, () =>
    names.filter(() => random.below(3) === 0),
  );
  const pageOf = (groups: readonly string[], { after = '', limit = 1 }: GroupOptions) => {
    const behind = groups.filter(
      (name) => Buffer.compare(Buffer.from(name), Buffer.from(after)) > 0,
    );
    const shown = behind.slice(0, limit);
    return { groups: shown, ...(behind.length > limit ? { next: shown.at(-1)! } : {}) };
  };
  const parts: DeploymentListing<GroupOptions, GroupPage> = {
    here: async (options) => pageOf(all[0]!, options),
    isHere: (origin) => origin === 1,
    ownUrl: 'http://1',
    gateways: async () => [...all.map((_, index) => gateway(index + 1)), gateway(9)],
    ask: async (url, options) => {
      // Not after the cursor.
      if (url === 'http://9') return { groups: ['', '1'] };
      return pageOf(all[Number(url.slice(7)) - 1]!, options);
    },
  };
  for (const limit of [1, 2, 1000]) {
    const listed: string[] = [];
    for (let after = ''; ; ) {
      const page = await listDeployment({ limit, after }, parts, GROUPS_IN_ORDER);
      expect(page.groups.length).toBeLessThanOrEqual(limit);
      expect(page.away).toEqual([9]);
      listed.push(...page.groups);
      if (page.next === undefined) break;
      after = page.next;
    }
    expect(listed).toEqual(names.filter((name) => all.some((groups) => groups.includes(name))));
  }
});

describe('a server that cannot be asked is named', () => {
  const random = new Random(9);
  const own = [file(random, 1)];

  it.each<[string, readonly Gateway[], number[] | undefined]>([
    ['it has no URL', [gateway(1), gateway(9, { url: null })], [9]],
    ['it is silent', [gateway(1), gateway(9, { seenAt: NOW - 31_000 })], [9]],
    ['it is being adopted', [gateway(1), gateway(9, { adoption: adoption(false) })], [9]],
    ['it says that it is this one', [gateway(1), gateway(9, { url: 'http://1' })], [9]],
    [
      'it was adopted: its adopter lists them',
      [gateway(1), gateway(9, { adoption: adoption(true) })],
      undefined,
    ],
  ])('%s', async (_, gateways, away) => {
    const { list, asked } = scene({ servers: [own], gateways });
    const page = await list();
    expect(page.files).toEqual(own);
    expect(page.away).toEqual(away);
    expect(asked).toEqual([]);
  });

  it('it fails: with all origins behind its URL, which is asked once', async () => {
    const url = 'http://2';
    const gateways = [gateway(1), gateway(5, { url }), gateway(2, { url })];
    const answer = (): never => {
      throw new StoreError('storage_unavailable', 'away');
    };
    const { list, asked } = scene({ servers: [own, []], gateways, answer });
    expect(await list()).toEqual({ files: own, away: [2, 5] });
    expect(asked).toEqual([url]);
  });

  it.each<[string, (page: FilePage) => FilePage]>([
    ['in another order', ({ files }) => ({ files: files.toReversed() })],
    ['twice', ({ files }) => ({ files: [...files, files.at(-1)!] })],
    ['without keys', ({ files }) => ({ files: files.map((each) => ({ ...each, key: '' })) })],
    ['more than was asked for', ({ files }) => ({ files: [...files, file(new Random(1), 99)] })],
    ['a cursor before its files', ({ files }) => ({ files, next: 'AAAAAAAAAAAAAAAAAAAAAA' })],
    ['a cursor that is none', ({ files }) => ({ files, next: 'on' })],
  ])('it sends files %s', async (_, answer) => {
    const other = inOrderFiles([file(random, 2), file(random, 2)]);
    const { list } = scene({ servers: [own, other], answer });
    expect(await list({ limit: 2 })).toMatchObject({ files: own, away: [2] });
  });

  it('it goes on where the page began', async () => {
    const [after] = own.map(({ key }) => key);
    const answer = (): FilePage => ({ files: [], next: after! });
    const { list } = scene({ servers: [own, []], answer });
    expect(await list({ after: after! })).toEqual({ files: [], away: [2] });
  });
});

it('a listing is refused while nobody knows which servers there are', async () => {
  const { parts } = scene({ servers: [[]] });
  const gateways = async (): Promise<never> => {
    throw new MapError('map_unavailable', 'away');
  };
  const answer = listDeployment({}, { ...parts, gateways }, filesInOrder({}));
  await expect(answer).rejects.toMatchObject({ code: 'storage_unavailable', retryable: true });
});

it('a wrong limit is refused before anybody is asked', async () => {
  const { list, asked } = scene({ servers: [[], []] });
  for (const limit of [0, 1.5, 10_001]) {
    await expect(list({ limit })).rejects.toMatchObject({ code: 'invalid_option' });
  }
  expect(asked).toEqual([]);
});

function adoption(isDone: boolean) {
  return { by: 1, isDone, trunks: 0, adopted: 0 };
}

function inOrderFiles(files: readonly FileInfo[]): FileInfo[] {
  return inOrder(files).map((key) => files.find((each) => each.key === key)!);
}
