import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { MoveStep } from '../../packages/storage/dist/tiers/move.js';
import { Random } from '../support/random.js';
import { temporaryFolder } from '../support/temporary.js';
import { change, contentOf, NAME, openIn, store, THRESHOLD, tierOf } from './harness.js';

const CONTENT = Buffer.alloc(3000, 5);
const METADATA = Buffer.from('a\x02b');

/** Rows are read without a wait: a loop over them would leave nobody else a turn. */
const othersTurn = () => new Promise(setImmediate);

class Killed extends Error {}

describe('a move', () => {
  const steps = (of: readonly MoveStep[]) => of.map((step) => [step] as const);
  const OUT = ['marked', 'copied', 'verified', 'named', 'switched'] as const;
  const IN = ['copied', 'switched', 'deleted'] as const;

  /** Ends the process when a move reaches the step; what follows is another process. */
  async function killedAt(
    folder: string,
    step: MoveStep,
    act: (opened: Awaited<ReturnType<typeof openIn>>) => Promise<unknown>,
    prepare: (opened: Awaited<ReturnType<typeof openIn>>) => Promise<unknown>,
  ) {
    let armed = false;
    const opened = await openIn(folder, {
      onStep: (reached) => {
        if (armed && reached === step) throw new Killed();
      },
    });
    await store(opened, folder, NAME, CONTENT);
    await store(opened, folder, `${NAME}-m`, METADATA);
    await prepare(opened);
    armed = true;
    await expect(act(opened)).rejects.toThrow(Killed);
    opened.abandon();
    // A storage removes what is there of temporary files when it starts.
    for (const name of readdirSync(join(folder, 'data', '.tmp'))) {
      rmSync(join(folder, 'data', '.tmp', name));
    }
    return openIn(folder);
  }

  async function expectOnce(opened: Awaited<ReturnType<typeof openIn>>, folder: string) {
    const record = tierOf(opened).records.find(NAME)!;
    expect(record.moving).toBe(false);
    expect(existsSync(join(folder, 'data', NAME))).toBe(record.place === 1);
    expect(existsSync(join(folder, 'data', `${NAME}-m`))).toBe(false);
    expect(await contentOf(opened, folder, `${NAME}-m`)).toEqual(METADATA);
  }

  it.each(steps(OUT))(
    'to a data file that is killed when %s leaves one whole copy',
    async (step) => {
      const folder = temporaryFolder();
      const opened = await killedAt(
        folder,
        step,
        (each) => tierOf(each).moveToFile(NAME),
        async () => {},
      );
      expect(await contentOf(opened, folder, NAME)).toEqual(CONTENT);
      await expectOnce(opened, folder);
      // And it can be made again.
      await tierOf(opened).moveToFile(NAME);
      expect(await contentOf(opened, folder, NAME)).toEqual(CONTENT);
      await opened.close();
    },
  );

  it.each(steps(IN))('to a row that is killed when %s leaves one whole copy', async (step) => {
    const folder = temporaryFolder();
    const opened = await killedAt(
      folder,
      step,
      (each) => tierOf(each).moveToRow(NAME, THRESHOLD),
      (each) => tierOf(each).moveToFile(NAME),
    );
    expect(await contentOf(opened, folder, NAME)).toEqual(CONTENT);
    await expectOnce(opened, folder);
    await opened.close();
  });

  it.each(steps(['marked', 'copied', 'verified', 'named']))(
    'because of growth that is killed when %s leaves the file as it was',
    async (step) => {
      const folder = temporaryFolder();
      const opened = await killedAt(
        folder,
        step,
        (each) => change(each, folder, NAME, { at: 3000, bytes: Buffer.alloc(5000, 6) }),
        async () => {},
      );
      expect(await contentOf(opened, folder, NAME)).toEqual(CONTENT);
      await expectOnce(opened, folder);
      await opened.close();
    },
  );

  it.each(steps(OUT.slice(0, -1)))(
    'is revoked by a change when %s, and the change is made',
    async (step) => {
      const folder = temporaryFolder();
      let changed: Promise<void> | undefined;
      const opened = await openIn(folder, {
        onStep: (reached) => {
          if (reached !== step || changed) return;
          changed = change(opened, folder, NAME, { at: 0, bytes: Buffer.from('new') });
        },
      });
      await store(opened, folder, NAME, CONTENT);
      expect(await tierOf(opened).moveToFile(NAME)).toBe('revoked');
      await changed;
      expect(existsSync(join(folder, 'data', NAME))).toBe(false);
      expect((await contentOf(opened, folder, NAME))?.subarray(0, 4)).toEqual(
        Buffer.from('new\x05'),
      );
      expect(tierOf(opened).revokes).toBe(1);
      await opened.close();
    },
  );

  it('is revoked by a deletion', async () => {
    const folder = temporaryFolder();
    let deleted: Promise<void> | undefined;
    const opened = await openIn(folder, {
      onStep: (step) => {
        if (step === 'copied') deleted = opened.disk.unlink(join(folder, 'data', NAME));
      },
    });
    await store(opened, folder, NAME, CONTENT);
    await tierOf(opened).moveToFile(NAME);
    await deleted;
    expect(await contentOf(opened, folder, NAME)).toBeUndefined();
    expect(existsSync(join(folder, 'data', NAME))).toBe(false);
    await opened.close();
  });

  it('is refused while the file is open to be changed, and where there is nothing to move', async () => {
    const folder = temporaryFolder();
    const opened = await openIn(folder);
    expect(await tierOf(opened).moveToFile(NAME)).toBe('refused');
    expect(await tierOf(opened).moveToRow(NAME, THRESHOLD)).toBe('refused');
    await store(opened, folder, NAME, CONTENT);
    expect(await tierOf(opened).moveToRow(NAME, THRESHOLD)).toBe('refused');
    const file = await opened.disk.openToUpdate(join(folder, 'data', NAME));
    expect(await tierOf(opened).moveToFile(NAME)).toBe('refused');
    await file.close();
    expect(await tierOf(opened).moveToFile(NAME)).toBe('moved');
    await opened.close();
  });

  it('fails no read, write or deletion: hundreds of moves under load', async () => {
    const folder = temporaryFolder();
    const opened = await openIn(folder);
    const names = Array.from({ length: 20 }, (_, index) => `00/00/f${index}`);
    const versions = new Map<string, number>();
    const body = (version: number) => Buffer.alloc(1000 + version, version % 256);
    for (const name of names) {
      versions.set(name, 0);
      await store(opened, folder, name, body(0));
    }
    let moves = 0;
    let reads = 0;
    const MOVES = 120;
    const mover = async (seed: number) => {
      const random = new Random(seed);
      while (moves < MOVES) {
        const name = random.pick(names);
        const tier = tierOf(opened);
        const isRow = tier.records.find(name)?.place === 0;
        const outcome = isRow ? await tier.moveToFile(name) : await tier.moveToRow(name, THRESHOLD);
        if (outcome === 'moved') moves += 1;
        await othersTurn();
      }
    };
    const reader = async (seed: number) => {
      const random = new Random(seed);
      while (moves < MOVES) {
        const name = random.pick(names);
        const before = versions.get(name)!;
        const bytes = (await contentOf(opened, folder, name))!;
        reads += 1;
        await othersTurn();
        const version = bytes.length - 1000;
        expect(version).toBeGreaterThanOrEqual(before);
        expect(bytes).toEqual(body(version));
      }
    };
    const writer = async () => {
      const random = new Random(9);
      while (moves < MOVES) {
        const name = random.pick(names);
        const version = versions.get(name)! + 1;
        await store(opened, folder, name, body(version));
        versions.set(name, version);
      }
    };
    await Promise.all([mover(1), mover(2), reader(3), reader(4), writer()]);
    expect(reads).toBeGreaterThan(0);
    for (const name of names) {
      expect(await contentOf(opened, folder, name)).toEqual(body(versions.get(name)!));
    }
    await opened.close();
  });
});
