import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import { askMigration, type MigrationStatus } from '@stevedore/storage';
import { expect, onTestFinished, test } from 'vitest';
import { trackerOf, until } from '../storage/support.js';
import { Random } from '../support/random.js';
import { temporaryFolder } from '../support/temporary.js';

/**
 * Three metadata servers, each a process of its own, that give each other files while they
 * are read and changed; and any of them killed at any moment. What was answered is there
 * afterwards, and nothing that nobody knows of.
 */

const MEMBER = join(import.meta.dirname, '..', 'support', 'storage-member.mjs');
const FILES = 6;
const KILLS = 5;
const SIZE = 40;

class Member {
  readonly #options: Record<string, unknown>;
  #process: ChildProcess | undefined;
  address = '';

  constructor(tracker: number, group: string, tiers: Record<string, unknown>) {
    this.#options = {
      group,
      port: 0,
      storePaths: [temporaryFolder()],
      trackers: [`127.0.0.1:${tracker}`],
      cacheBytes: 0,
      maxIdleFiles: 0,
      tiers: {
        enabled: true,
        intervalMs: 20,
        bytesPerSecond: 1e9,
        movesPerSecond: 1000,
        guestGraceMs: 0,
        guestAwayMs: 20,
        maxWaitMs: 60_000,
        ...tiers,
      },
    };
  }

  async start(): Promise<void> {
    const child = spawn(process.execPath, [MEMBER, JSON.stringify(this.#options)], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    this.#process = child;
    onTestFinished(() => void child.kill('SIGKILL'));
    const [line] = (await once(createInterface(child.stdout!), 'line')) as [string];
    const port = Number(line.split(' ')[1]);
    this.#options.port = port;
    this.address = `127.0.0.1:${port}`;
  }

  async kill(): Promise<void> {
    const exited = once(this.#process!, 'exit');
    this.#process!.kill('SIGKILL');
    await exited;
  }

  status(action: 'status' | 'recall' = 'status'): Promise<MigrationStatus> {
    return askMigration(this.address, action);
  }
}

test('any server may be killed in the middle of a move', async () => {
  const random = new Random(20);
  const { port: tracker } = await trackerOf();
  const slow = { bytesPerSecond: 1000, accessBytes: 10, smallFileShare: 1 };
  const home = new Member(tracker, 'group1', slow);
  const members = [
    home,
    new Member(tracker, 'group2', {}),
    new Member(tracker, 'group3', { bytesPerSecond: 2e9 }),
  ];
  await Promise.all(members.map((each) => each.start()));
  const client = new FastdfsClient({
    trackers: [`127.0.0.1:${tracker}`],
    busyRetries: 0,
    idleTimeoutMs: 5000,
  });
  onTestFinished(() => client.close());
  const settled = async <Result>(action: () => Promise<Result>): Promise<Result> => {
    for (;;) {
      try {
        return await action();
      } catch (error) {
        if (!(error instanceof FastdfsError)) throw error;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }
  };

  /** All that a file was to be, and from where on it may be that now. */
  const histories = new Map<string, { readonly all: string[]; from: number }>();
  const bytesOf = (n: number, version: number) =>
    Buffer.from(`file ${n}, version ${version}`.padEnd(SIZE));
  const ids: string[] = [];
  for (let n = 0; n < FILES; n += 1) {
    const upload = () =>
      client.uploadAppender(bytesOf(n, 0), { group: 'group1', extension: 'txt' });
    const id = await settled(upload);
    ids.push(id);
    histories.set(id, { all: [String(bytesOf(n, 0))], from: 0 });
  }
  let version = 0;
  let ended = false;
  const check = (id: string, bytes: Buffer, from = histories.get(id)!.from): void => {
    const text = String(bytes);
    expect(histories.get(id)!.all.slice(from)).toContain(text.slice(0, SIZE));
    expect(text.slice(SIZE)).toMatch(/^\.*$/);
  };
  const reader = async (id: string, n: number): Promise<void> => {
    while (!ended) {
      const { from } = histories.get(id)!;
      const bytes = await client.downloadBytes(id).catch(() => undefined);
      if (bytes) check(id, bytes, from);
      await client.setMetadata(id, { n: String(n) }).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  };
  const changer = async (): Promise<void> => {
    while (!ended) {
      const n = random.below(FILES);
      const id = ids[n]!;
      version += 1;
      const next = bytesOf(n, version);
      const history = histories.get(id)!;
      history.all.push(String(next));
      try {
        await client.modify(id, 0, next);
        history.from = history.all.length - 1;
      } catch {
        // Made or not made: the next answer tells.
      }
      // Longer and cut again: what has become a data file while the others were away is a
      // row after that, and may move.
      await client.append(id, Buffer.from('.')).catch(() => {});
      await client.truncate(id, next.length).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  const work = Promise.all([...ids.map(reader), changer()]);

  let moved = 0;
  const guestsAtHome = async () => (await home.status()).guestFiles.files;
  for (let kill = 0; kill < KILLS; kill += 1) {
    // Into the middle of something: as soon as another file has gone.
    const before = (await home.status()).moves.moved;
    await until(async () => (await home.status()).moves.moved > before);
    moved += 1;
    const victim = kill % 2 === 0 ? home : members[1 + random.below(2)]!;
    await victim.kill();
    await victim.start();
    await until(async () => (await home.status()).neighbours.length === 2);
  }
  ended = true;
  await work;
  expect(moved).toBe(KILLS);

  // All that is with another server is what a record at home points at.
  await until(async () => (await home.status()).waitingDepartures === 0);
  for (const [n, id] of ids.entries()) {
    check(id, await settled(() => client.downloadBytes(id)));
    await settled(() => client.setMetadata(id, { last: String(n) }));
    expect(await settled(() => client.getMetadata(id))).toEqual({ last: String(n) });
  }
  await home.status('recall');
  await until(async () => (await guestsAtHome()) === 0);
  await until(async () => (await home.status()).waitingDepartures === 0);
  for (const id of ids) check(id, await settled(() => client.downloadBytes(id)));
  for (const other of members.slice(1)) {
    const { rows, guestFiles } = await other.status();
    expect([rows.files, guestFiles.files]).toEqual([0, 0]);
  }
}, 180_000);
