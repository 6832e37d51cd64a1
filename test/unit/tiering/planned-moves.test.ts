import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import {
  type PlannedMove,
  PlannedMoves,
  type PlannedMovesParts,
} from '../../../packages/tiering/dist/migration/moves.js';
import type { MoveOutcome } from '../../../packages/tiering/dist/tiers/tier-moves.js';

/** The queue of moves, on a clock that stands still unless a test says otherwise. */

const START = '2026-01-02T03:04:05.678Z';

beforeEach(() => {
  vi.useFakeTimers({ now: new Date(START), toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  return () => vi.useRealTimers();
});

type Result = MoveOutcome | Error | Promise<MoveOutcome>;

function movesOf(options: Partial<PlannedMovesParts> = {}) {
  /** What was asked of the tier, in order. */
  const asked: unknown[][] = [];
  const lines: Readonly<Record<string, unknown>>[] = [];
  const errors: unknown[] = [];
  const state = { thresholdBytes: 1000.9, flushes: 0, result: (): Result => 'moved' };
  const ask = async (...given: unknown[]): Promise<MoveOutcome> => {
    asked.push(given);
    const result = await state.result();
    if (result instanceof Error) throw result;
    return result;
  };
  const tier = {
    pathOf: (name: string) => `/data/${name}`,
    moves: {
      toFile: (name: string) => ask('toFile', name),
      home: (name: string, limit: number) => ask('home', name, limit),
      toGroup: (name: string, group: string) => ask('toGroup', name, group),
    },
  };
  const audit = {
    write: (line: Readonly<Record<string, unknown>>) => lines.push(line),
    flush: async () => {
      state.flushes += 1;
    },
  };
  const moves = new PlannedMoves({
    audit: audit as never,
    movesPerSecond: 1_000_000,
    thresholdBytes: () => state.thresholdBytes,
    now: Date.now,
    onError: (error) => errors.push(error),
    ...options,
  });
  onTestFinished(() => moves.close());
  const plan = (name: string, more: Partial<PlannedMove> = {}) =>
    moves.add({
      ...({
        tier,
        name,
        to: 'file',
        reason: 'space',
        size: 10,
        numbers: {},
      } as never as PlannedMove),
      ...more,
    });
  const names = () => asked.map(([, name]) => name);
  return { moves, plan, asked, names, lines, errors, state };
}

/** While the clock stands still. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate);
}

/** Time for a few moves, where they may be many. */
async function settled(): Promise<void> {
  for (let ms = 0; ms < 10; ms += 1) {
    await vi.advanceTimersByTimeAsync(1);
    await turns();
  }
}

/** An outcome that a test gives later. */
function later(): { readonly outcome: Promise<MoveOutcome>; give(outcome: MoveOutcome): void } {
  let give: (outcome: MoveOutcome) => void = () => {};
  const outcome = new Promise<MoveOutcome>((resolve) => {
    give = resolve;
  });
  return { outcome, give };
}

describe('a planned move', () => {
  it('leads where it is to, and leaves a line with the numbers behind it', async () => {
    const { moves, plan, asked, lines, state } = movesOf();
    plan('a', { reason: 'load', numbers: { profit: 3 } });
    await turns();
    plan('b', { to: 'home', reason: 'shrunk', size: 20 });
    plan('c', { to: { group: 'group2' }, size: 30 });
    await settled();
    expect(asked).toEqual([
      ['toFile', 'a'],
      ['home', 'b', 1000.9],
      ['toGroup', 'c', 'group2'],
    ]);
    expect(lines[0]).toMatchObject({ at: START });
    const about = { at: expect.any(String), thresholdBytes: 1000, outcome: 'moved' };
    expect(lines).toEqual([
      { ...about, name: 'a', to: 'file', reason: 'load', size: 10, profit: 3 },
      { ...about, name: 'b', to: 'home', reason: 'shrunk', size: 20 },
      { ...about, name: 'c', to: 'group2', reason: 'space', size: 30 },
    ]);
    expect(moves.status).toEqual({
      ...{ isPaused: false, isDryRun: false, movedBytes: 60, queued: 0 },
      moves: { moved: 3, revoked: 0, refused: 0, failed: 0 },
    });
    // The log names the threshold at the time of the decision; the current one decides.
    const running = later();
    state.result = () => running.outcome;
    plan('d');
    plan('e', { to: 'home' });
    state.thresholdBytes = 500;
    running.give('moved');
    await settled();
    expect(asked.at(-1)).toEqual(['home', 'e', 500]);
    expect(lines.at(-1)).toMatchObject({ name: 'e', thresholdBytes: 1000 });
  });

  it('that comes to nothing is counted as what it was, and the next one follows', async () => {
    const { moves, plan, lines, errors, state } = movesOf();
    const results: Result[] = ['revoked', 'refused', new Error('no room'), 'refused', 'moved'];
    state.result = () => results.shift()!;
    for (const name of ['a', 'b', 'c', 'd', 'e']) plan(name);
    await settled();
    expect(moves.status.moves).toEqual({ moved: 1, revoked: 1, refused: 2, failed: 1 });
    expect(moves.status.movedBytes).toBe(10);
    expect(errors).toMatchObject([{ message: 'no room' }]);
    expect(lines.map(({ outcome }) => outcome)).toEqual([
      ...['revoked', 'refused', 'failed', 'refused', 'moved'],
    ]);
  });

  it('of what another storage moved here leads to a file, not further', async () => {
    const { plan, asked, lines } = movesOf();
    plan('00/00/x.mabcde', { to: { group: 'group2' } });
    plan('00/00/y.mabcde', { to: 'home' });
    await settled();
    expect(asked.map(([to]) => to)).toEqual(['toFile', 'home']);
    expect(lines.map(({ to }) => to)).toEqual(['file', 'home']);
  });
});

describe('the queue', () => {
  it('makes one move at a time, in the order of the plans, and holds a file once', async () => {
    const { moves, plan, names, state } = movesOf();
    const running = later();
    state.result = () => running.outcome;
    plan('a');
    for (const name of ['b', 'c', 'b']) plan(name);
    await settled();
    expect(names()).toEqual(['a']);
    expect(moves.status.queued).toBe(2);
    // It may have to move again.
    plan('a');
    running.give('moved');
    await settled();
    expect(names()).toEqual(['a', 'b', 'c', 'a']);
  });

  it('holds 1,024 files', async () => {
    const { moves, plan, names } = movesOf();
    moves.pause();
    for (let n = 0; n < 1_025; n += 1) plan(`f${n}`);
    expect(moves.status).toMatchObject({ isPaused: true, queued: 1_024 });
    moves.resume();
    await vi.advanceTimersByTimeAsync(3_000);
    expect(names()).toHaveLength(1_024);
    expect(names().at(-1)).toBe('f1023');
  });

  it('stands still while it is paused, and goes on', async () => {
    const { moves, plan, names } = movesOf();
    moves.pause();
    plan('a');
    await settled();
    expect([names(), moves.status.queued]).toEqual([[], 1]);
    moves.resume();
    await settled();
    expect([names(), moves.status.isPaused]).toEqual([['a'], false]);
  });

  it('is only logged in a dry run, until it goes on', async () => {
    const { moves, plan, names, lines } = movesOf();
    moves.dryRun();
    plan('a', { to: { group: 'group2' }, numbers: { profit: 3 } });
    await settled();
    expect(names()).toEqual([]);
    expect(lines).toMatchObject([{ name: 'a', to: 'group2', profit: 3, outcome: 'dry-run' }]);
    expect(moves.status).toMatchObject({
      ...{ isDryRun: true, queued: 0, movedBytes: 0 },
      moves: { moved: 0, failed: 0 },
    });
    moves.resume();
    plan('a');
    await settled();
    expect([names(), moves.status.isDryRun]).toEqual([['a'], false]);
  });

  it('ends with the move that is under way, and its line', async () => {
    const { moves, plan, names, lines, state } = movesOf();
    const running = later();
    state.result = () => running.outcome;
    plan('a');
    plan('b');
    let isClosed = false;
    const closing = moves.close().then(() => {
      isClosed = true;
    });
    plan('c');
    await settled();
    expect([isClosed, state.flushes, moves.status.queued]).toEqual([false, 0, 0]);
    running.give('revoked');
    await closing;
    plan('d');
    await settled();
    expect([names(), state.flushes, moves.status.queued]).toEqual([['a'], 1, 0]);
    expect(lines.map(({ name }) => name)).toEqual(['a']);
  });
});

describe('the rate of moves', () => {
  /** How many have been made, once so much time is over. */
  async function madeAfter(ms: number, names: () => unknown[]): Promise<number> {
    await vi.advanceTimersByTimeAsync(ms);
    await turns();
    return names().length;
  }

  it('is one at once, then as many a second as are allowed', async () => {
    const { plan, names } = movesOf({ movesPerSecond: 2 });
    for (const name of ['a', 'b', 'c', 'd']) plan(name);
    expect(await madeAfter(0, names)).toBe(1);
    expect(vi.getTimerCount()).toBe(1);
    expect(await madeAfter(499, names)).toBe(1);
    expect(await madeAfter(1, names)).toBe(2);
    expect(await madeAfter(1_000, names)).toBe(4);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('counts from the last move, whenever the next is planned, and nobody looks before', async () => {
    let looks = 0;
    const now = () => {
      looks += 1;
      return Date.now();
    };
    const { plan, names } = movesOf({ movesPerSecond: 2, now });
    plan('a');
    expect(await madeAfter(300, names)).toBe(1);
    plan('b');
    looks = 0;
    expect(await madeAfter(199, names)).toBe(1);
    expect(looks).toBe(0);
    expect(await madeAfter(1, names)).toBe(2);
  });

  it('may be less than one a second', async () => {
    const { plan, names } = movesOf({ movesPerSecond: 0.3 });
    for (const name of ['a', 'b', 'c']) plan(name);
    expect(await madeAfter(3_333, names)).toBe(1);
    expect(await madeAfter(1, names)).toBe(2);
    // Time without plans does not add up.
    expect(await madeAfter(100_000, names)).toBe(3);
    for (const name of ['d', 'e']) plan(name);
    expect(await madeAfter(0, names)).toBe(4);
  });

  it('saves no more than those of a second', async () => {
    const { plan, names } = movesOf({ movesPerSecond: 3 });
    await vi.advanceTimersByTimeAsync(60_000);
    for (let n = 0; n < 9; n += 1) plan(`f${n}`);
    expect(await madeAfter(0, names)).toBe(3);
    expect(await madeAfter(333, names)).toBe(3);
    expect(await madeAfter(1, names)).toBe(4);
  });

  it('does not wait for a clock that was set back to catch up', async () => {
    const { plan, names } = movesOf({ movesPerSecond: 2 });
    for (const name of ['a', 'b', 'c']) plan(name);
    expect(await madeAfter(0, names)).toBe(1);
    vi.setSystemTime(new Date(Date.now() - 3_600_000));
    expect(await madeAfter(1_000, names)).toBe(2);
    expect(await madeAfter(500, names)).toBe(3);
  });

  it('counts what was planned while nothing moved', async () => {
    const { moves, plan, names } = movesOf({ movesPerSecond: 2 });
    for (const name of ['a', 'b', 'c']) plan(name);
    expect(await madeAfter(0, names)).toBe(1);
    moves.pause();
    expect(await madeAfter(10_000, names)).toBe(1);
    moves.resume();
    expect(await madeAfter(0, names)).toBe(3);
  });

  it('leaves no timer behind at the end', async () => {
    const { moves, plan, names } = movesOf({ movesPerSecond: 2 });
    plan('a');
    plan('b');
    await turns();
    expect(vi.getTimerCount()).toBe(1);
    await moves.close();
    expect([vi.getTimerCount(), names()]).toEqual([0, ['a']]);
  });
});
