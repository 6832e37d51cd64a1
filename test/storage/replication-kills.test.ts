import { FastdfsClient } from '@stevedore/fastdfs';
import { expect, it, onTestFinished } from 'vitest';
import { Random } from '../support/random.js';
import { type MemberProcess, processGroup, within } from './member-processes.js';
import { PromisedFiles } from './promised-files.js';

/**
 * Three storages in processes of their own under load, one after the other killed,
 * stopped for a while, or started without its disk, as long as another one lacks
 * nothing: what was acknowledged is read all the time, and in the end is at every member.
 * STEVEDORE_KILL_ROUNDS asks for more of it, STEVEDORE_TEST_SEED for the same again.
 */

const ROUNDS = Number(process.env.STEVEDORE_KILL_ROUNDS ?? 4);
const WRITERS = 4;
/** What the slowest machine needs for one round, and for its end. */
const ROUND_MS = 60_000;

it(
  'an acknowledged change outlives every member but one',
  async () => {
    const seed = Number(process.env.STEVEDORE_TEST_SEED ?? Date.now() % 1_000_000);
    const random = new Random(seed);
    const { tracker, members, current, standing } = await processGroup(3);
    const client = new FastdfsClient({
      trackers: [`${tracker.host}:${tracker.port}`],
      // A hanging member holds a writer up for so long.
      idleTimeoutMs: 2000,
    });
    onTestFinished(() => client.close());
    const files = new PromisedFiles(client, random);

    let isWriting = true;
    let written = 0;
    // A failure must not leave them writing to a client that is closed.
    onTestFinished(() => {
      isWriting = false;
    });
    const writers = Array.from({ length: WRITERS }, async () => {
      while (isWriting) {
        if (await files.write()) written += 1;
        else await new Promise((resolve) => setTimeout(resolve, 20));
      }
    });
    const load = async (operations: number): Promise<void> => {
      const enough = written + operations;
      await within(ROUND_MS, async () =>
        written >= enough ? undefined : `${enough - written} operations are not acknowledged`,
      );
    };
    const allCurrent = (): Promise<void> =>
      within(ROUND_MS, async () => {
        const hosts = await current();
        if (hosts.length === members.length) return undefined;
        return `only ${hosts} have everything: ${await standing()}`;
      });
    /** One of which the others do not depend: at least one of them lacks nothing. */
    const victim = async (): Promise<MemberProcess> => {
      let chosen: MemberProcess | undefined;
      await within(ROUND_MS, async () => {
        const hosts = await current();
        const able = members.filter(({ host }) => hosts.some((each) => each !== host));
        chosen = able.length > 0 ? random.pick(able) : undefined;
        return chosen ? undefined : 'no member lacks nothing';
      });
      return chosen!;
    };
    const kinds = { kill: 0, stop: 0, pause: 0, empty: 0 };

    await load(40);
    for (let round = 0; round < ROUNDS; round++) {
      const what = random.pick(['kill', 'kill', 'kill', 'stop', 'pause', 'empty'] as const);
      // What a disk alone has is lost with it.
      if (what === 'empty' || random.below(2) === 0) await allCurrent();
      const member = await victim();
      kinds[what] += 1;
      if (what === 'stop' || what === 'pause') member.signal('SIGSTOP');
      else await member.kill();
      if (what === 'pause') await new Promise((resolve) => setTimeout(resolve, random.below(1500)));
      else {
        await load(5);
        await files.readSome(what === 'stop' ? 5 : 30);
        await load(15);
      }
      if (what === 'stop' || what === 'pause') member.signal('SIGCONT');
      else {
        if (what === 'empty') await member.loseDisk();
        await member.start(members[0]!.port);
      }
      await load(10);
      await files.readSome(20);
    }
    isWriting = false;
    await Promise.all(writers);
    await allCurrent();

    let lacking: string[] = [];
    const [first, ...others] = members.map(({ host, port }) => ({ address: host, port }));
    // What nobody was promised may still be on its way; all else is there.
    for (const storage of [first!, ...others]) lacking.push(...(await files.lackingAt(storage)));
    files.countLost(lacking);
    const counts = JSON.stringify({ seed, ...kinds, ...files.counts });
    process.stderr.write(`replication-kills ${counts}\n`);
    for (const [id, history] of files.histories()) {
      const name = id.slice(id.indexOf('/') + 1);
      const logs = await Promise.all(
        members.map(async (member) => [`log of ${member.host}:`, ...(await member.logOf(name))]),
      );
      process.stderr.write(`${[id, ...history, ...logs.flat()].join('\n    ')}\n`);
    }
    expect(files.wrong, counts).toEqual([]);
    expect(lacking, counts).toEqual([]);
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
