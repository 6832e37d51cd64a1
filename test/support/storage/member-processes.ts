import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { listStorage, StorageStatus } from '@stevedore/protocol';
import { startTracker, type Tracker } from '@stevedore/tracker';
import { onTestFinished } from 'vitest';
import { TEST } from '../paths.js';
import { temporaryFolder } from '../temporary.js';
import { RawClient } from './support.js';

/** Storages in processes of their own, to be killed, stopped for a while, or robbed of their disks. */

const MEMBER = join(TEST, 'support/storage-member.mjs');

export class MemberProcess {
  readonly host: string;
  readonly folder = temporaryFolder();
  readonly #tracker: Tracker;
  readonly #writeCopies: number;
  #process: ChildProcess | undefined;
  port = 0;

  constructor(host: string, tracker: Tracker, writeCopies: number) {
    this.host = host;
    this.#tracker = tracker;
    this.#writeCopies = writeCopies;
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
      writeCopies: this.#writeCopies,
      writeTimeoutMs: 1000,
      requestTimeoutMs: 5000,
    };
    const child = spawn(process.execPath, [MEMBER, JSON.stringify(options)], {
      stdio: ['pipe', 'pipe', process.env.STEVEDORE_TEST_LOG ? 'inherit' : 'ignore'],
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

  /** Cuts it off from trackers and other members, or joins it to them again. */
  say(what: 'cut' | 'join'): void {
    this.#process?.stdin?.write(`${what}\n`);
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
  /** Hosts of the members that serve, as the tracker knows. */
  active(): Promise<readonly string[]>;
}

/** A group of so many members, all of them active, with new files at so many. */
export async function processGroup(size: number, writeCopies: number): Promise<ProcessGroup> {
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
    (_, index) => new MemberProcess(`${network}.${index + 2}`, tracker, writeCopies),
  );
  onTestFinished(async () => {
    for (const member of members) {
      member.signal('SIGCONT');
      await member.kill();
    }
  });
  const active = async (): Promise<readonly string[]> => {
    const client = await RawClient.open(tracker.port, tracker.host);
    const { answer } = await client.ask(listStorage, { group: 'group1', id: '' });
    client.socket.destroy();
    return (answer ?? []).flatMap(({ id, status }) =>
      status === StorageStatus.active ? [id] : [],
    );
  };
  for (const [index, member] of members.entries()) {
    await member.start(members[0]!.port);
    await within(30_000, async () => {
      const count = (await active()).length;
      return count === index + 1 ? undefined : `${count} of ${index + 1} members are there`;
    });
  }
  return { tracker, members, active };
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
