import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { forgetFileMap, openStaging, stageFile, until } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

const ONCE = randomBytes(16);
const MARK = ONCE.toString('base64url');

describe('a file with an end', () => {
  test('is deleted after it, whether it waits or is merged; others are not', async () => {
    const { staging } = await openStaging(temporaryFolder());
    const now = Date.now();
    const merged = await stageFile(staging, randomBytes(500), { expiresAt: now - 2 });
    const kept = await stageFile(staging, randomBytes(500));
    const later = await stageFile(staging, randomBytes(500), { expiresAt: now + 3_600_000 });
    await staging.merging.flush();
    const waiting = await stageFile(staging, randomBytes(500), { expiresAt: now - 1 });
    expect(staging.fileMap.find(merged)?.expiresAt).toBe(now - 2);
    expect(await staging.deletions.deleteExpired()).toBe(2);
    expect([merged, waiting].map((key) => staging.fileMap.find(key))).toEqual([
      undefined,
      undefined,
    ]);
    expect([kept, later].map((key) => staging.fileMap.find(key)?.size)).toEqual([500, 500]);
    expect(await staging.deletions.deleteExpired()).toBe(0);
  });

  test('goes by itself', async () => {
    const { staging } = await openStaging(temporaryFolder(), { expiryIntervalMs: 5 });
    const key = await stageFile(staging, randomBytes(10), { expiresAt: Date.now() + 1 });
    await until(() => staging.fileMap.find(key) === undefined);
  });

  test('keeps its end when the FileMap is lost, before and after merging', async () => {
    for (const retain of [undefined, 0]) {
      const folder = temporaryFolder();
      const expiresAt = Date.now() + 3_600_000;
      const opened = await openStaging(folder, retain === 0 ? { retain } : {});
      const key = await stageFile(opened.staging, randomBytes(900), { expiresAt });
      if (retain === 0) await opened.staging.merging.flush();
      await opened.staging.close();
      forgetFileMap(folder);
      const { staging } = await openStaging(folder, {}, opened.store);
      expect(staging.fileMap.find(key)?.expiresAt).toBe(expiresAt);
    }
  });
});

test('the mark of an upload leads to its files in their order, after a restart and without the FileMap too', async () => {
  const folder = temporaryFolder();
  const opened = await openStaging(folder);
  const first = await stageFile(opened.staging, randomBytes(10), { once: MARK });
  const second = await stageFile(opened.staging, randomBytes(10), { once: MARK });
  await stageFile(opened.staging, randomBytes(10));
  await opened.staging.close();
  rmSync(join(folder, 'filemap.sqlite'), { force: true });
  const { staging } = await openStaging(folder);
  expect(staging.fileMap.findOnce(ONCE).map(({ key }) => key)).toEqual([first, second]);
  expect(staging.fileMap.findOnce(randomBytes(16))).toEqual([]);
});
