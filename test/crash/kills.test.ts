import { expect, test } from 'vitest';
import { runKills } from '../support/kills/kills.js';
import { CRASH_SHARE, CRASH_SEED as SEED } from '../support/simulator/sample.js';

/** What a gateway has acknowledged is there, after many kills under load. */

const KILLS = Math.ceil(150 * CRASH_SHARE);
/** All of them take half an hour on a quiet machine. */
const MAX_SECONDS = CRASH_SHARE < 1 ? 600 : 3_600;

test.each(['embedded', 'separate'] as const)(
  'no acknowledged file is lost, altered or undead after many kills: %s',
  { timeout: (MAX_SECONDS + 240) * 1000 },
  async (setUp) => {
    const options = { kills: KILLS, seed: SEED, maxSeconds: MAX_SECONDS, loseFileMap: true };
    const { findings, ...counts } = await runKills(setUp, options);
    console.log(JSON.stringify(counts), `seed ${SEED}`);
    expect(findings, `seed ${SEED}`).toEqual([]);
    // A run that does next to nothing proves nothing.
    expect(counts.kills).toBeGreaterThanOrEqual((KILLS * 2) / 3);
    expect(counts.files).toBeGreaterThan(10 * KILLS);
    expect(counts.deletions).toBeGreaterThan((KILLS * 5) / 3);
    expect(counts.byId).toBeGreaterThan((KILLS * 5) / 6);
  },
);
