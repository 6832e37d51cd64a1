import { expect, test } from 'vitest';
import { formatKills, runKills } from '../support/kills/kills.js';
import { CRASH_SHARE, CRASH_SEED as SEED } from '../support/simulator/sample.js';
import { temporaryFolder } from '../support/temporary.js';

/**
 * The gateway is killed with all that is in it, and as one of three processes, under
 * load; what it has acknowledged has to be there.
 */

const KILLS = Math.ceil(300 * CRASH_SHARE);
/** All of them take half an hour on a quiet machine. */
const MAX_SECONDS = CRASH_SHARE < 1 ? 1_200 : 7_200;

test('no acknowledged file is lost, altered or undead after many kills', {
  timeout: (MAX_SECONDS + 240) * 1000,
}, async () => {
  const result = await runKills({
    setUps: ['embedded', 'separate'],
    kills: KILLS,
    seed: SEED,
    maxSeconds: MAX_SECONDS,
    folder: temporaryFolder(),
    loseFileMap: true,
    onProgress: () => {},
  });
  console.log(`${formatKills(result)} (seed ${SEED})`);
  expect({ findings: result.findings, refusals: result.refusals }, `seed ${SEED}`).toEqual({
    findings: [],
    refusals: [],
  });
  expect(result).toMatchObject({ lost: 0, altered: 0, undead: 0 });
  // A run that does next to nothing proves nothing.
  expect(result.kills).toBeGreaterThanOrEqual((KILLS * 2) / 3);
  expect(result.files).toBeGreaterThan(10 * KILLS);
  expect(result.deletions).toBeGreaterThan((KILLS * 5) / 3);
  expect(result.byId).toBeGreaterThan((KILLS * 5) / 6);
});
