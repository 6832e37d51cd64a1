import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { type Storage, type StorageOptions, startStorage } from '@stevedore/node';
import { type FileName, listStorage, StorageStatus } from '@stevedore/protocol';
import { startTracker, type Tracker, type TrackerOptions } from '@stevedore/tracker';
import { onTestFinished } from 'vitest';
import { temporaryFolder } from '../temporary.js';
import { RawClient, until } from './support.js';

/** A group of storages on addresses of their own, each to be closed and started again. */

export interface MemberOfTest {
  readonly host: string;
  readonly folder: string;
  readonly errors: Error[];
  /** Undefined while it is closed. */
  storage: Storage | undefined;
  start(options?: Partial<StorageOptions>): Promise<void>;
  stop(): Promise<void>;
  connect(): Promise<RawClient>;
}

export interface GroupOfTest {
  readonly tracker: Tracker;
  readonly members: MemberOfTest[];
  /** Adds a member that is not started. */
  add(): MemberOfTest;
  /** Status of a member at the tracker, and what it holds of the others. */
  statusOf(member: MemberOfTest): Promise<number>;
  asked(): Promise<RawClient>;
}

let nextNetwork = 30 + (process.pid % 180);

export async function groupOf(
  size: number,
  options: Partial<StorageOptions> = {},
  trackerOptions: TrackerOptions = {},
): Promise<GroupOfTest> {
  const network = `127.0.${nextNetwork++}`;
  const tracker = await startTracker({
    host: `${network}.1`,
    port: 0,
    reservedSpaceMegabytes: 1,
    ...trackerOptions,
  });
  onTestFinished(() => tracker.close());
  let port = 0;
  const members: MemberOfTest[] = [];
  const add = (): MemberOfTest => {
    const host = `${network}.${members.length + 2}`;
    const folder = temporaryFolder();
    const errors: Error[] = [];
    const member: MemberOfTest = {
      host,
      folder,
      errors,
      storage: undefined,
      async start(more = {}) {
        member.storage = await startStorage({
          host,
          port,
          storePaths: [folder],
          trackers: [`${tracker.host}:${tracker.port}`],
          subdirectoriesPerPath: 4,
          reconnectDelayMs: 50,
          beatIntervalMs: 200,
          onError: (error) => errors.push(error),
          ...options,
          ...more,
        });
        port = member.storage.port;
      },
      async stop() {
        await member.storage?.close();
        member.storage = undefined;
      },
      connect: () => RawClient.open(port, host),
    };
    members.push(member);
    onTestFinished(() => member.stop());
    return member;
  };
  const asked = () => RawClient.open(tracker.port, tracker.host);
  const group: GroupOfTest = {
    tracker,
    members,
    add,
    asked,
    async statusOf(member) {
      const client = await asked();
      const { answer } = await client.ask(listStorage, { group: 'group1', id: member.host });
      client.socket.destroy();
      return answer?.[0]?.status ?? StorageStatus.none;
    },
  };
  for (let count = 0; count < size; count++) {
    const member = add();
    await member.start();
    await member.storage!.active();
  }
  return group;
}

/** Every file of a member with its content, by name; what is the member's own is left out. */
export async function contentsOf(member: MemberOfTest): Promise<Map<string, string>> {
  const data = join(member.folder, 'data');
  const contents = new Map<string, string>();
  for (const high of (await readdir(data)).filter((name) => /^[0-9A-F]{2}$/.test(name)).sort()) {
    for (const low of (await readdir(join(data, high))).sort()) {
      for (const base of (await readdir(join(data, high, low))).sort()) {
        const path = join(data, high, low, base);
        const stats = await lstat(path);
        // What a link leads to may be deleted.
        const text = stats.isSymbolicLink()
          ? `link to ${relative(data, resolve(dirname(path), await readlink(path)))}`
          : `${Math.floor(stats.mtimeMs / 1000)} ${(await readFile(path)).toString('latin1')}`;
        contents.set(`M00/${high}/${low}/${base}`, text);
      }
    }
  }
  return contents;
}

/** Resolves once all members that run have the same files with the same content. */
export async function sameEverywhere(members: readonly MemberOfTest[]): Promise<void> {
  let all: ReadonlyMap<string, string>[] = [];
  await until(
    async () => {
      const found = await Promise.allSettled(members.map(contentsOf));
      all = found.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
      // A file went while it was looked at.
      if (all.length < members.length) return false;
      const texts = all.map((each) => JSON.stringify([...each]));
      return texts.every((text) => text === texts[0]);
    },
    () => {
      const names = [...new Set(all.flatMap((each) => [...each.keys()]))];
      const different = names.filter((name) => new Set(all.map((each) => each.get(name))).size > 1);
      return different
        .map((name) => `${name}: ${all.map((each) => each.get(name)?.slice(0, 40)).join(' | ')}`)
        .join('\n');
    },
  );
}

export async function pathExists(member: MemberOfTest, file: FileName): Promise<boolean> {
  return (await contentsOf(member)).has(file.name);
}
