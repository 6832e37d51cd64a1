import { randomBytes } from 'node:crypto';
import { type FileStore, open, type Store } from '@stevedore/client';
import { connect } from '@stevedore/client/connect';
import { FastdfsClient } from '@stevedore/fastdfs';
import {
  downloadFile,
  formatFileId,
  parseFileId,
  parseSliceId,
  queryFileInfo,
  Status,
} from '@stevedore/protocol';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startGateway } from '../../../gateway/dist/start.js';
import {
  type Received,
  refuse,
  startTestCluster,
  type TestCluster,
} from '../../support/cluster/index.js';
import { temporaryFolder } from '../../support/temporary.js';

/**
 * What a read answers when FastDFS has no bytes: that the file was deleted here, that FastDFS has
 * lost it, that nobody can say now, or that all its copies are damaged.
 */

const SMALL = randomBytes(5000);
const LARGE = randomBytes(5 * 2 ** 20);

/** Kinds of files whose bytes are in FastDFS alone. */
const REMOTE = ['slice', 'large'] as const;
/** Kinds of files that no record names. */
const UNKNOWN = ['direct', 'directSlice'] as const;
/** Kinds of files whose bytes are on this disk too, or only there. */
const LOCAL = ['retained', 'staged'] as const;
type Kind = (typeof REMOTE)[number] | (typeof UNKNOWN)[number] | (typeof LOCAL)[number];

interface Scene {
  readonly cluster: TestCluster;
  readonly client: FastdfsClient;
  readonly store: Store;
  /** Of the gateway. */
  readonly url: string | undefined;
  readonly behind: FileStore;
  readonly errors: Error[];
  readonly keys: Readonly<Record<Kind, string>>;
  readonly ids: Readonly<Record<Exclude<Kind, 'staged'>, string>>;
  /** FastDFS's own file of each kind. */
  readonly placeOf: (kind: Exclude<Kind, 'staged'>) => string;
}

async function scene(as: 'open()' | 'connect()'): Promise<Scene> {
  const cluster = await startTestCluster({ storages: 2 });
  const client = new FastdfsClient({ trackers: cluster.trackers });
  const directory = temporaryFolder();
  const options = {
    trackers: [...cluster.trackers],
    directory,
    mergeMaxAge: '1h',
    ...{ retain: 0, cacheSize: 0, scrubRate: 0, idMaxAge: 0 },
  } as const;
  const first = await open(options);
  const slice = await first.put(SMALL);
  const large = await first.put(LARGE);
  await first.flush();
  await first.close();
  const { store, behind, url, errors } = await opened(as, options);
  onTestFinished(async () => {
    await client.close();
    await cluster.close();
  });
  const direct = await behind.put(SMALL, { mode: 'direct' });
  const together = { mode: 'direct', group: 'album' } as const;
  const [directSlice] = await Promise.all([1, 2].map(() => behind.put(SMALL, together)));
  const retained = await behind.put(SMALL);
  await behind.flush();
  // What the first one staged leaves this disk; the newest segment stays.
  await expect
    .poll(
      async () => (await behind.locate(slice.key)).disk ?? (await behind.locate(large.key)).disk,
    )
    .toBeUndefined();
  const staged = await behind.put(SMALL);
  const keys = {
    ...{ slice: slice.key, large: large.key },
    ...{ direct: direct.key, directSlice: directSlice!.key },
    ...{ retained: retained.key, staged: staged.key },
  };
  const idOf = (key: string) => behind.settled(key);
  const ids = {
    ...{ slice: await idOf(slice.key), retained: await idOf(retained.key) },
    large: await idOf(large.key),
    ...{ direct: direct.key, directSlice: directSlice!.key },
  };
  const placeOf = (kind: keyof typeof ids): string => {
    const inTrunk = parseSliceId(parseFileId(ids[kind])!);
    return inTrunk ? formatFileId(inTrunk.trunk) : ids[kind];
  };
  return { cluster, client, store, url, behind, errors, keys, ids, placeOf };
}

type Options = Parameters<typeof open>[0];

async function opened(as: 'open()' | 'connect()', options: Options) {
  const errors: Error[] = [];
  if (as === 'open()') {
    const store = await open(options);
    onTestFinished(() => store.close());
    store.on('error', (error) => errors.push(error));
    return { store, behind: store, url: undefined, errors };
  }
  const gateway = await startGateway({ ...options, port: 0, logLevel: 'silent' });
  onTestFinished(() => gateway.close());
  gateway.store.on('error', (error) => errors.push(error));
  // Its retries are tested elsewhere.
  const store = connect({ url: gateway.url, retryTime: 0 });
  onTestFinished(() => store.close());
  return { store, behind: gateway.store, url: gateway.url, errors };
}

const outcome = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => 'answered',
    ({ code }) => code as string,
  );

const bytesOf = async (store: Store, id: string): Promise<string> => {
  const read = async (range?: { start: number; end: number }) => {
    const bytes = await (await store.get(id)).bytes(range ? { range } : {});
    const { start, end } = range ?? { start: 0, end: bytes.length - 1 };
    const content = bytes.length > SMALL.length ? LARGE : SMALL;
    if (range || bytes.length === content.length) return bytes;
    throw new Error(`${start} to ${end}: ${bytes.length} bytes`);
  };
  const part = await outcome(read({ start: 10, end: 999 }));
  expect(await outcome(read())).toBe(part);
  return part;
};

const STATUSES: Readonly<Record<string, number>> = {
  answered: 200,
  not_found: 404,
  missing_in_fastdfs: 500,
  storage_unavailable: 503,
  corrupt: 500,
};

/** Names of the file, and its paths at the gateway. */
function namesOf({ url, keys, ids }: Scene, kind: Kind) {
  const id = kind === 'staged' ? undefined : ids[kind];
  const names = [keys[kind], ...(id === undefined ? [] : [id])];
  const paths = names.map((name) => (name.includes('/') ? `/${name}` : `/files/${name}`));
  return { names, urls: url === undefined ? [] : paths.map((path) => url + path) };
}

/** The outcome of reading the file, the same in all ways that there are. */
async function reading(scene: Scene, kind: Kind): Promise<string> {
  const { names, urls } = namesOf(scene, kind);
  const outcomes = [];
  for (const name of names) outcomes.push(await bytesOf(scene.store, name));
  const found = outcomes[0]!;
  expect(outcomes, kind).toEqual(names.map(() => found));
  for (const url of urls) {
    const answer = await fetch(url);
    expect(answer.status, url).toBe(STATUSES[found]);
    expect(answer.headers.has('retry-after')).toBe(found === 'storage_unavailable');
    if (found === 'answered') {
      await answer.arrayBuffer();
      continue;
    }
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(await answer.json()).toMatchObject({ code: found });
  }
  return found;
}

/** The outcome of asking for the facts of the file, the same in all ways. */
async function asking(scene: Scene, kind: Kind): Promise<string> {
  const { names, urls } = namesOf(scene, kind);
  const found = await outcome(scene.store.stat(names[0]!));
  for (const name of names) expect(await outcome(scene.store.stat(name)), kind).toBe(found);
  for (const url of urls) {
    expect((await fetch(url, { method: 'HEAD' })).status, url).toBe(STATUSES[found]);
  }
  return found;
}

type How = typeof reading;

async function expectAll(scene: Scene, how: How, expected: Partial<Record<Kind, string>>) {
  const found: Partial<Record<Kind, string>> = {};
  for (const kind of Object.keys(expected) as Kind[]) found[kind] = await how(scene, kind);
  expect(found).toEqual(expected);
}

const each = (kinds: readonly Kind[], found: string): Partial<Record<Kind, string>> =>
  Object.fromEntries(kinds.map((kind) => [kind, found]));

const answered = (...kinds: readonly Kind[]) => each(kinds, 'answered');

describe.each(['open()', 'connect()'] as const)('a file, read over %s,', (as) => {
  test('that was deleted here is not found', async () => {
    const found = await scene(as);
    const kinds = [...REMOTE, ...LOCAL];
    for (const kind of kinds) await found.store.delete(found.keys[kind]);
    await expectAll(found, reading, each(kinds, 'not_found'));
    await expectAll(found, asking, each(kinds, 'not_found'));
    expect(found.errors).toEqual([]);
  });

  test('that FastDFS has lost is missing, which an operator hears of once', async () => {
    const found = await scene(as);
    const { client, behind, errors, placeOf } = found;
    const places = REMOTE.map(placeOf);
    for (const place of [...places, ...(['retained', ...UNKNOWN] as const).map(placeOf)]) {
      await client.delete(place);
    }
    const unknown = each(UNKNOWN, 'not_found');
    // Nobody has read a known one yet.
    await expectAll(found, asking, { ...answered(...REMOTE, ...LOCAL), ...unknown });
    const lost = each(REMOTE, 'missing_in_fastdfs');
    for (const how of [reading, asking]) {
      await expectAll(found, how, { ...lost, ...unknown, ...answered(...LOCAL) });
    }
    expect(errors).toMatchObject(REMOTE.map(() => ({ code: 'missing_in_fastdfs' })));
    const named = errors.map(({ message }) => places.find((id) => message.includes(id)));
    expect(named).toEqual(places);
    expect(behind.stats().missingInFastdfs).toBe(places.length);
    await found.store.delete(found.keys.slice);
    expect(await reading(found, 'slice')).toBe('not_found');
  });

  test.each(['storages', 'tracker'] as const)(
    'can be read later if the %s are away',
    async (away) => {
      const found = await scene(as);
      const { cluster, behind } = found;
      const nodes = away === 'tracker' ? [cluster.tracker] : cluster.storages;
      await Promise.all(nodes.map((node) => node.close()));
      const unknown = each(UNKNOWN, 'storage_unavailable');
      const remote = each(REMOTE, 'storage_unavailable');
      await expectAll(found, reading, { ...remote, ...unknown, ...answered(...LOCAL) });
      await expectAll(found, asking, { ...answered(...REMOTE, ...LOCAL), ...unknown });
      expect(behind.stats().missingInFastdfs).toBe(0);
    },
  );

  test('whose copies are all damaged is an error of its own', async () => {
    const found = await scene(as);
    for (const storage of found.cluster.storages) {
      storage.misbehave(downloadFile.code, ({ socket }: Received, good: Buffer) => {
        const bytes = Buffer.from(good);
        for (let at = 20; at < bytes.length; at += 100) bytes[at]! ^= 1;
        socket.write(bytes);
      });
    }
    await expectAll(found, reading, { ...each(REMOTE, 'corrupt'), ...answered(...LOCAL) });
    await expectAll(found, asking, answered(...REMOTE, ...LOCAL));
  });
});

const hasNone = refuse(Status.notFound);
const READS = [downloadFile.code, queryFileInfo.code];

test('a file that comes back is read again, and no longer counts as lost', async () => {
  const found = await scene('open()');
  const { cluster, behind } = found;
  for (const storage of cluster.storages) {
    for (const command of READS) storage.misbehave(command, hasNone);
  }
  const kinds = [...REMOTE, ...UNKNOWN];
  const lost = { ...each(REMOTE, 'missing_in_fastdfs'), ...each(UNKNOWN, 'not_found') };
  await expectAll(found, reading, lost);
  cluster.behave();
  await expectAll(found, asking, answered(...kinds));
  expect(behind.stats().missingInFastdfs).toBe(0);
  await expectAll(found, reading, answered(...kinds));
});

test('a file that one storage has lost is read from the other', async () => {
  for (const index of [0, 1]) {
    const found = await scene('open()');
    const { cluster, behind, errors } = found;
    for (const command of READS) cluster.storages[index]!.misbehave(command, hasNone);
    // Reads go to either storage.
    for (let turn = 0; turn < 4; turn++) await expectAll(found, reading, answered(...REMOTE));
    expect(behind.stats().missingInFastdfs).toBe(0);
    expect(errors).toEqual([]);
  }
});

test('a file that one storage lacks while the other is away can be read later', async () => {
  const found = await scene('open()');
  const { cluster } = found;
  for (const command of READS) cluster.storages[1]!.misbehave(command, hasNone);
  await cluster.storages[0]!.close();
  await expectAll(found, reading, each(REMOTE, 'storage_unavailable'));
});
