import { expect, test } from 'vitest';
import { formatKills, runKills } from '../support/kills.js';
import { temporaryFolder } from '../support/temporary.js';

/**
 * The gateway is killed with all that is in it, and as one of three processes, under
 * load; what it has acknowledged has to be there. `npm run test:kills` runs it longer.
 */

const KILLS = 30;
const MAX_SECONDS = 300;

test('no acknowledged file is lost, altered or undead after many kills', {
  timeout: (MAX_SECONDS + 240) * 1000,
}, async () => {
  const seed = Math.floor(Math.random() * 2 ** 32);
  const result = await runKills({
    setUps: ['embedded', 'separate'],
    kills: KILLS,
    seed,
    maxSeconds: MAX_SECONDS,
    folder: temporaryFolder(),
    loseFileMap: true,
    onProgress: () => {},
  });
  console.log(`${formatKills(result)} (seed ${seed})`);
  expect({ findings: result.findings, refusals: result.refusals }, `seed ${seed}`).toEqual({
    findings: [],
    refusals: [],
  });
  expect(result).toMatchObject({ lost: 0, altered: 0, undead: 0 });
  // A run that does next to nothing proves nothing.
  expect(result.kills).toBeGreaterThanOrEqual(20);
  expect(result.files).toBeGreaterThan(300);
  expect(result.deletions).toBeGreaterThan(50);
  expect(result.byId).toBeGreaterThan(25);
});
