import { expect, test } from 'vitest';
import { runKills } from '../support/kills/kills.js';

test('a SIGKILL under load loses, alters and revives nothing', { timeout: 120_000 }, async () => {
  const seed = Math.floor(Math.random() * 2 ** 32);
  const options = { kills: 1, seed, maxSeconds: 60, loseFileMap: false };
  const { findings, files } = await runKills('embedded', options);
  expect(findings, `seed ${seed}`).toEqual([]);
  expect(files).toBeGreaterThan(10);
});
