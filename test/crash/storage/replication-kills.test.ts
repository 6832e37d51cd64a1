import { FastdfsClient } from '@stevedore/fastdfs';
import { expect, it, onTestFinished } from 'vitest';
import { Random } from '../../support/random.js';
import {
  type MemberProcess,
  processGroup,
  within,
} from '../../support/storage/member-processes.js';
import { PromisedFiles } from '../../support/storage/promised-files.js';

/**
 * Three storages with two copies of every new file, in processes of their own under load,
 * one after the other killed, stopped for a while, cut off from the others, or started without
 * its disk: a new file
 * that was acknowledged is read all the time, and in the end is at every member. So is
 * every change, but for those of a member that loses its disk before it has pushed them;
 * none is made around that. STEVEDORE_KILL_ROUNDS asks for more of it, STEVEDORE_TEST_SEED for the same again.
 */

const ROUNDS = Number(process.env.STEVEDORE_KILL_ROUNDS ?? 4);
const WRITERS = 4;
/** What the slowest machine needs for one round, and for its end. */
const ROUND_MS = 60_000;

it(
  'an acknowledged file outlives every member but one',
  async () => {
    const seed = Number(process.env.STEVEDORE_TEST_SEED ?? Date.now() % 1_000_000);
    const random = new Random(seed);
    const { tracker, members, active } = await processGroup(3, 2);
    const client = new FastdfsClient({
      trackers: [`${tracker.host}:${tracker.port}`],
      // A hanging member holds a writer up for so long.
      idleTimeoutMs: 2000,
    });
    onTestFinished(() => client.close());
    const files = new PromisedFiles(client, random);

    let isWriting = true;
    let isPaused = false;
    let written = 0;
    // A failure must not leave them writing to a client that is closed.
    onTestFinished(() => {
      isWriting = false;
    });
    const writers = Array.from({ length: WRITERS }, async () => {
      while (isWriting) {
        if (!isPaused && (await files.write())) written += 1;
        else await new Promise((resolve) => setTimeout(resolve, 20));
      }
    });
    const load = async (operations: number): Promise<void> => {
      const enough = written + operations;
      await within(ROUND_MS, async () =>
        written >= enough ? undefined : `${enough - written} operations are not acknowledged`,
      );
    };
    const storages = () => members.map(({ host, port }) => ({ address: host, port }));
    const tell = async (): Promise<void> => {
      for (const [id, history] of files.histories()) {
        const name = id.slice(id.indexOf('/') + 1);
        const logs = await Promise.all(
          members.map(async (member) => [`log of ${member.host}:`, ...(await member.logOf(name))]),
        );
        process.stderr.write(`${[id, ...history, ...logs.flat()].join('\n    ')}\n`);
      }
    };
    /** Resolves when every member is active and has everything. */
    const wholeEverywhere = async (): Promise<void> => {
      isPaused = true;
      await within(ROUND_MS, async () => {
        const hosts = await active();
        if (hosts.length < members.length) return `only ${hosts} are active`;
        for (const storage of storages()) {
          const lacking = await files.lackingAt(storage);
          if (lacking.length > 0) return lacking.join('\n');
        }
        return undefined;
      }).catch(async (error: unknown) => {
        await tell();
        throw error;
      });
      isPaused = false;
    };
    const kinds = { kill: 0, stop: 0, pause: 0, cut: 0, empty: 0 };

    await load(40);
    for (let round = 0; round < ROUNDS; round++) {
      const what = random.pick(['kill', 'kill', 'stop', 'pause', 'cut', 'cut', 'empty'] as const);
      if (what === 'empty') {
        files.areChangesHeld = true;
        // Two copies stand the loss of one disk at a time.
        await wholeEverywhere();
        await load(5);
      }
      const member: MemberProcess = random.pick(members);
      kinds[what] += 1;
      if (what === 'stop' || what === 'pause') member.signal('SIGSTOP');
      else if (what === 'cut') member.say('cut');
      else await member.kill();
      if (what === 'pause') await new Promise((resolve) => setTimeout(resolve, random.below(1500)));
      else {
        await load(5);
        await files.readSome(what === 'stop' ? 5 : 30);
        await load(15);
      }
      if (what === 'stop' || what === 'pause') member.signal('SIGCONT');
      else if (what === 'cut') member.say('join');
      else {
        if (what === 'empty') await member.loseDisk();
        await member.start(members[0]!.port);
        if (what === 'empty') await wholeEverywhere();
        files.areChangesHeld = false;
      }
      await load(10);
      await files.readSome(20);
    }
    isWriting = false;
    await Promise.all(writers);
    let failure: unknown;
    await wholeEverywhere().catch((error: unknown) => {
      failure = error;
    });
    const [first, ...others] = storages();
    let lacking: string[] = [];
    for (const storage of [first!, ...others]) lacking.push(...(await files.lackingAt(storage)));
    files.countLost(lacking);
    const counts = JSON.stringify({ seed, ...kinds, ...files.counts });
    process.stderr.write(`replication-kills ${counts}\n`);
    if (files.wrong.length > 0) await tell();
    expect(files.wrong, counts).toEqual([]);
    expect(lacking, counts).toEqual([]);
    expect(failure).toBeUndefined();
    await within(ROUND_MS, async () => {
      lacking = [];
      for (const other of others) lacking.push(...(await files.differencesOf(first!, other)));
      if (lacking.length === 0) return undefined;
      return [...lacking, ...[...files.histories().values()].flat()].join('\n');
    });
    expect(files.counts.files).toBeGreaterThan(20);
  },
  (ROUNDS + 2) * 2 * ROUND_MS,
);
