import { expect, test } from 'vitest';
import { runKills } from '../support/kills/kills.js';
import { temporaryFolder } from '../support/temporary.js';

test('a SIGKILL under load loses, alters and revives nothing', { timeout: 120_000 }, async () => {
  const result = await runKills({
    setUps: ['embedded'],
    kills: 1,
    seed: Math.floor(Math.random() * 2 ** 32),
    maxSeconds: 60,
    folder: temporaryFolder(),
    loseFileMap: false,
    onProgress: () => {},
  });
  expect(result).toMatchObject({ lost: 0, altered: 0, undead: 0, findings: [], refusals: [] });
  expect(result.files).toBeGreaterThan(10);
});
