import { describe, expect, it } from 'vitest';
import { PeerState } from '../../packages/storage/dist/replication/peer-state.js';
import { Standing } from '../../packages/storage/dist/replication/standing.js';

/** A member of which a storage has told the trackers; `answer` settles the oldest word. */
function member(isKnownOut = false) {
  const standing = new Standing();
  standing.settle([]);
  const words: string[] = [];
  const waiting: { resolve: (taken: boolean) => void; reject: (error: Error) => void }[] = [];
  const errors: Error[] = [];
  const state = new PeerState(
    {
      id: 'b',
      standing,
      isThere: () => true,
      report: (says) => {
        words.push(says);
        return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
      },
      tellOthers: async () => {},
      progressed: () => {},
      retryDelayMs: 1,
      onError: (error) => errors.push(error),
    },
    isKnownOut,
  );
  const told = (count: number) => expect.poll(() => words.length).toBe(count);
  return { standing, state, words, waiting, errors, told };
}

describe('whether changes wait for a member', () => {
  it('is told to the trackers one word at a time, the last one last', async () => {
    const { state, words, waiting, told } = member();
    const level = state.reportLevel();
    state.leave();
    expect(words).toEqual(['level']);
    waiting.shift()!.resolve(true);
    await level;
    await told(2);
    expect(words).toEqual(['level', 'out']);
    waiting.shift()!.resolve(true);
    await expect.poll(() => state.isOut).toBe(true);
    await state.close();
  });

  it('is taken back if it returns before the trackers have answered, or seem not to have', async () => {
    const { state, words, waiting, told, errors } = member();
    state.leave();
    state.regain();
    expect(state.isLive).toBe(true);
    waiting.shift()!.reject(new Error('no answer'));
    await told(2);
    expect(words).toEqual(['out', 'level']);
    waiting.shift()!.resolve(true);
    await state.close();
    expect(errors.map(({ message }) => message)).toEqual(['no answer']);
  });

  it('is not so because that member waits, where it lacks what was answered without it', async () => {
    const { standing, state, waiting } = member(true);
    state.regain();
    expect(state.isOut).toBe(true);
    state.reportAgain();
    state.regain();
    expect(state.state).toBe('leaving');
    expect(standing.takesFrom('b')).toBe(false);
    waiting.shift()!.resolve(true);
    await expect.poll(() => state.isOut).toBe(true);
    await state.close();
  });

  it('is reported again once this storage lacks nothing itself any more', async () => {
    const { standing, state, waiting, words, told } = member(true);
    standing.ledBy('c');
    state.reportAgain();
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(words).toEqual([]);
    standing.levelWith('c');
    await told(1);
    waiting.shift()!.resolve(true);
    await expect.poll(() => state.isOut).toBe(true);
    await state.close();
  });
});
