import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { listStorage, reportStanding, StorageStatus } from '@stevedore/protocol';
import { startTracker, type Tracker } from '@stevedore/storage';
import { onTestFinished } from 'vitest';
import { temporaryFolder } from '../support/temporary.js';
import { RawClient } from './support.js';

/** Storages in processes of their own, to be killed, stopped for a while, or robbed of their disks. */

const MEMBER = join(import.meta.dirname, '..', 'support', 'storage-member.mjs');

export class MemberProcess {
  readonly host: string;
  readonly folder = temporaryFolder();
  readonly #tracker: Tracker;
  #process: ChildProcess | undefined;
  port = 0;

  constructor(host: string, tracker: Tracker) {
    this.host = host;
    this.#tracker = tracker;
  }

  get isRunning(): boolean {
    return this.#process !== undefined;
  }

  async start(port: number): Promise<void> {
    const options = {
      host: this.host,
      port,
      storePaths: [this.folder],
      trackers: [`${this.#tracker.host}:${this.#tracker.port}`],
      reconnectDelayMs: 50,
      beatIntervalMs: 500,
      writeTimeoutMs: 1000,
      requestTimeoutMs: 5000,
    };
    const child = spawn(process.execPath, [MEMBER, JSON.stringify(options)], {
      stdio: ['ignore', 'pipe', process.env.STEVEDORE_TEST_LOG ? 'inherit' : 'ignore'],
    });
    this.#process = child;
    for await (const line of createInterface({ input: child.stdout! })) {
      this.port = Number(/^ready (\d+)$/.exec(line)![1]);
      return;
    }
    throw new Error(`the storage ${this.host} has ended`);
  }

  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /** Makes it hang, or go on. */
  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.#process?.kill(name);
  }

  /** What its log has of a file. */
  async logOf(name: string): Promise<string[]> {
    const log = await readFile(join(this.folder, 'data', 'sync', 'binlog.000'), 'latin1');
    return log.split('\n').filter((line) => line.includes(name));
  }

  async loseDisk(): Promise<void> {
    await rm(join(this.folder, 'data'), { recursive: true, force: true });
  }
}

export interface ProcessGroup {
  readonly tracker: Tracker;
  readonly members: readonly MemberProcess[];
  /** Hosts of the members that serve and lack nothing, as the tracker knows. */
  current(): Promise<readonly string[]>;
  /** State of every member, and who is out for whom, as the tracker knows. */
  standing(): Promise<string>;
}

/** A group of so many members, all of them current. */
export async function processGroup(size: number): Promise<ProcessGroup> {
  const network = `127.0.${10 + (process.pid % 15)}`;
  const tracker = await startTracker({
    host: `${network}.1`,
    port: 0,
    reservedSpaceMegabytes: 1,
    checkActiveIntervalMs: 2000,
  });
  onTestFinished(() => tracker.close());
  const members = Array.from(
    { length: size },
    (_, index) => new MemberProcess(`${network}.${index + 2}`, tracker),
  );
  onTestFinished(async () => {
    for (const member of members) {
      member.signal('SIGCONT');
      await member.kill();
    }
  });
  const ask = async () => {
    const client = await RawClient.open(tracker.port, tracker.host);
    const listed = await client.ask(listStorage, { group: 'group1', id: '' });
    const nobody = { group: 'group1', memberId: '', byId: '', says: 'ask' } as const;
    const { answer: pairs = [] } = await client.ask(reportStanding, nobody);
    client.socket.destroy();
    return { listed: listed.answer ?? [], pairs };
  };
  const current = async (): Promise<readonly string[]> => {
    const { listed, pairs } = await ask();
    const out = new Set(pairs.map(({ memberId }) => memberId));
    return listed.flatMap(({ id, status }) =>
      status === StorageStatus.active && !out.has(id) ? [id] : [],
    );
  };
  const standing = async (): Promise<string> => {
    const { listed, pairs } = await ask();
    const states = listed.map(({ id, status }) => `${id} has status ${status}`);
    const out = pairs.map(({ memberId, byId }) => `${memberId} is out for ${byId}`);
    return [...states, ...out].join(', ');
  };
  for (const [index, member] of members.entries()) {
    await member.start(members[0]!.port);
    await within(30_000, async () => {
      const count = (await current()).length;
      return count === index + 1 ? undefined : `${count} of ${index + 1} members are there`;
    });
  }
  return { tracker, members, current, standing };
}

/** Resolves when nothing is lacking any more; rejects with what still is. */
export async function within(
  milliseconds: number,
  lacking: () => Promise<string | undefined>,
): Promise<void> {
  const endsAt = performance.now() + milliseconds;
  for (;;) {
    const what = await lacking();
    if (what === undefined) return;
    if (performance.now() > endsAt) throw new Error(`after ${milliseconds} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
