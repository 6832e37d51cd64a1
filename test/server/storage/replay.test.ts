import { connect } from 'node:net';
import { startStorage } from '@stevedore/node';
import { beat, type JoinRequest, join } from '@stevedore/protocol';
import { startTracker, type TrackerOptions } from '@stevedore/tracker';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Recorded, Replay, recorded, type Target } from '../../support/storage/replay.js';
import { DIFFERENCES } from '../../support/storage/replay-differences.js';
import { TALLIES } from '../../support/storage/replay-tallies.js';
import { RawClient } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

/**
 * Every recorded request, sent to our daemons. The daemons listen on the recorded
 * addresses (of the loopback network), so that names and lists carry the same.
 */

const IDS = ['100001 group1 127.0.17.7:24200', '100002 group1 127.0.17.8:24201'];

interface ClusterOfTest {
  readonly tracker: { readonly host: string; readonly recordedPort: number };
  readonly options: TrackerOptions;
}

const CLUSTERS: Readonly<Record<string, ClusterOfTest>> = {
  plain: { tracker: { host: '127.0.17.2', recordedPort: 24_122 }, options: {} },
  trunk: { tracker: { host: '127.0.17.4', recordedPort: 24_222 }, options: {} },
  ids: {
    tracker: { host: '127.0.17.6', recordedPort: 24_322 },
    options: { storageIds: IDS, addressWidth: 'wide' },
  },
  trunk2: { tracker: { host: '127.0.17.10', recordedPort: 24_422 }, options: {} },
};

function replayOf(target: Target): Replay {
  const replay = new Replay(target);
  onTestFinished(() => replay.close());
  return replay;
}

/** A tracker whose clock goes as it went in the recording. */
async function trackerOf(cluster: string, startSeconds: number) {
  const { tracker, options } = CLUSTERS[cluster]!;
  let nowMs = startSeconds * 1000;
  const environment = { now: () => nowMs, uptimeMs: () => nowMs, random: () => 0 };
  const daemon = await startTracker({ ...options, environment, host: tracker.host, port: 0 });
  onTestFinished(() => daemon.close());
  const setSeconds = (seconds: number): void => {
    nowMs = seconds * 1000;
  };
  return { target: { ...tracker, port: daemon.port }, setSeconds };
}

/** Plays what the storages of a cluster sent, up to a time, and leaves them connected. */
async function storagesOf(cluster: string, untilSeconds = Number.POSITIVE_INFINITY) {
  const frames = recorded('storage-to-tracker').filter((each) => each.cluster === cluster);
  const { target, setSeconds } = await trackerOf(cluster, Math.floor(frames[0]!.t!));
  const replay = replayOf(target);
  const phases = new Map<string, string>();
  for (const frame of frames.filter((each) => each.t! < untilSeconds)) {
    const storage = frame.from_storage!;
    // A storage that starts again has no connections any more.
    if (phases.get(storage) !== frame.phase) await replay.end(`${storage} `);
    phases.set(storage, frame.phase!);
    setSeconds(frame.t!);
    await replay.play(frame, `${storage} ${frame.connection}`, storage);
  }
  return { target, setSeconds, replay };
}

async function storageOf(host: string, trackers: readonly string[] = [], paths = 1) {
  const storage = await startStorage({
    storePaths: Array.from({ length: paths }, () => temporaryFolder()),
    host,
    port: 0,
    trackers,
    subdirectoriesPerPath: paths === 1 ? 256 : 64,
  });
  onTestFinished(() => storage.close());
  if (trackers.length > 0) await storage.active();
  return { host, port: storage.port };
}

/** Has the tracker count a storage at that address as a member of the group. */
async function joinAs(address: string, tracker: { host: string; port: number }, port: number) {
  const socket = connect({ ...tracker, localAddress: address });
  onTestFinished(() => void socket.destroy());
  const client = new RawClient(socket);
  const request: JoinRequest = {
    group: 'group1',
    port,
    storePathCount: 2,
    subdirectoriesPerPath: 64,
    uploadPriority: 10,
    joinedAtSeconds: 1,
    startedAtSeconds: 1,
    version: '6.16.1',
    initial: false,
    status: 0,
    storageId: '',
    trackerAddress: tracker.host,
    trackers: [`${tracker.host}:${tracker.port}`],
  };
  expect((await client.ask(join, request)).status).toBe(0);
  expect((await client.ask(beat, undefined)).status).toBe(0);
}

/** Storages with ids 100001 and 100002. */
async function storagesWithIds() {
  const storageIds = IDS.map((line) => line.replace(/:\d+$/, ''));
  const host = '127.0.17.6';
  const tracker = await startTracker({ host, port: 0, storageIds, addressWidth: 'wide' });
  onTestFinished(() => tracker.close());
  const trackers = [`${host}:${tracker.port}`];
  const first = await storageOf('127.0.17.7', trackers, 2);
  return { first, second: await storageOf('127.0.17.8', trackers, 2) };
}

async function playAll(replay: Replay, vectors: readonly Recorded[]): Promise<void> {
  for (const vector of vectors) await replay.play(vector);
}

/** Nothing but what the table names differs, and as often as it did: no vector is left out. */
function check(replay: Replay, part: string): void {
  expect(replay.problems).toEqual([]);
  expect(replay.tally).toEqual(TALLIES[part]);
}

describe('recorded requests of clients to a tracker', () => {
  it.each([
    ['tracker', 'plain', 1_795_207_295],
    ['tracker-trunk', 'trunk', 1_795_207_305],
    ['tracker-ids', 'ids', 1_795_207_309],
  ] as const)('%s', async (file, cluster, seconds) => {
    const { target, setSeconds } = await storagesOf(cluster, seconds);
    setSeconds(seconds);
    const replay = replayOf(target);
    await playAll(replay, recorded(file));
    check(replay, file);
  });
});

describe('recorded requests of clients to a storage', () => {
  it('storage', async () => {
    const replay = replayOf(await storageOf('127.0.17.3'));
    await playAll(replay, recorded('storage'));
    check(replay, 'storage');
  });

  it('storage-trunk', async () => {
    const replay = replayOf(await storageOf('127.0.17.5'));
    await playAll(replay, recorded('storage-trunk'));
    check(replay, 'storage-trunk');
  });

  it('storage-ids', async () => {
    const replay = replayOf((await storagesWithIds()).second);
    await playAll(replay, recorded('storage-ids'));
    check(replay, 'storage-ids');
  });
});

describe('recorded requests of storages to a tracker', () => {
  it.each(['plain', 'trunk', 'ids', 'trunk2'])('%s', async (cluster) => {
    const { replay } = await storagesOf(cluster);
    check(replay, `storage-to-tracker ${cluster}`);
  });
});

describe('recorded requests of storages to a storage', () => {
  it.each([
    ['ids', ['127.0.17.7', '127.0.17.8']],
    ['trunk2', ['127.0.17.11', '127.0.17.12']],
  ] as const)('%s', async (cluster, peers) => {
    const host = cluster === 'ids' ? '127.0.17.9' : '127.0.17.13';
    const ids = [...IDS.map((line) => line.replace(/:\d+$/, '')), `100003 group1 ${host}`];
    const storageIds = cluster === 'ids' ? ids : [];
    const tracker = await startTracker({ host: '127.0.17.20', port: 0, storageIds });
    onTestFinished(() => tracker.close());
    const storage = await storageOf(host, [`127.0.17.20:${tracker.port}`], 2);
    for (const peer of peers) await joinAs(peer, tracker, storage.port);
    const replay = replayOf(storage);
    const vectors = recorded('storage-to-storage').filter((each) => each.cluster === cluster);
    for (const vector of vectors) {
      const sender = vector.op.split('.').slice(0, 4).join('.');
      await replay.play(
        vector,
        `${vector.connection}`,
        sender === '127.0.0.1' ? undefined : sender,
      );
    }
    check(replay, `storage-to-storage ${cluster}`);
  });
});

describe('hand-made requests', () => {
  it.each([
    ['plain', 1_795_207_324, '127.0.17.3'],
    ['trunk', 1_795_207_324, '127.0.17.5'],
    ['ids', 1_795_207_324, '127.0.17.8'],
  ] as const)('of the cluster %s', async (cluster, seconds, host) => {
    const vectors = recorded('errors-raw').filter((each) => each.cluster === cluster);
    const { target, setSeconds } = await storagesOf(cluster, seconds);
    setSeconds(seconds);
    for (const [server, at] of [
      ['tracker', target],
      ['storage', await storageOf(host)],
    ] as const) {
      const replay = replayOf(at);
      await playAll(
        replay,
        vectors.filter((each) => each.server === server),
      );
      check(replay, `errors-raw ${cluster} ${server}`);
    }
  });
});

describe('recorded runs of the C programs', () => {
  it('in the plain cluster', async () => {
    const frames = recorded('program-flows').filter((each) => each.cluster === 'plain');
    const { target, setSeconds } = await storagesOf('plain', 1_795_207_328);
    setSeconds(1_795_207_328);
    const tracker = replayOf(target);
    const storage = replayOf(await storageOf('127.0.17.3'));
    for (const frame of frames) await (frame.server === 'tracker' ? tracker : storage).play(frame);
    check(tracker, 'program-flows plain tracker');
    check(storage, 'program-flows plain storage');
  });

  it('in the cluster with storage ids', async () => {
    const frames = recorded('program-flows').filter((each) => each.cluster === 'ids');
    const { target, setSeconds } = await storagesOf('ids', 1_795_207_330);
    setSeconds(1_795_207_330);
    const tracker = replayOf(target);
    const storages = await storagesWithIds();
    const [first, second] = [replayOf(storages.first), replayOf(storages.second)];
    let address = '';
    for (const frame of frames) {
      if (frame.server === 'tracker') await tracker.play(frame);
      else await (address === '127.0.17.7' ? first : second).play(frame);
      // The program goes on to the storage that the recorded tracker named.
      const reply = Buffer.from(frame.response_hex!, 'hex').toString('latin1');
      address = /127\.0\.17\.\d+/.exec(reply)?.[0] ?? address;
    }
    check(tracker, 'program-flows ids tracker');
    check(first, 'program-flows ids 100001');
    check(second, 'program-flows ids 100002');
  });
});

describe('the replay', () => {
  it('compares every recorded exchange', () => {
    const compared = Object.values(TALLIES).reduce((sum, tally) => sum + tally.compared, 0);
    const files = [
      ...(['tracker', 'tracker-ids', 'tracker-trunk'] as const),
      ...(['storage', 'storage-ids', 'storage-trunk'] as const),
      ...(['errors-raw', 'storage-to-tracker', 'storage-to-storage', 'program-flows'] as const),
    ];
    expect(compared).toBe(files.reduce((sum, file) => sum + recorded(file).length, 0));
    expect(compared).toBe(819);
  });

  it('needs every entry of the table', () => {
    const used = new Set(Object.values(TALLIES).flatMap(({ differing }) => Object.keys(differing)));
    expect([...used].sort()).toEqual(DIFFERENCES.map(({ name }) => name).sort());
  });
});
