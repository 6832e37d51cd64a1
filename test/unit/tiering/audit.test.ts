import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { localDisk } from '@stevedore/disk';
import { describe, expect, it } from 'vitest';
import { AUDIT_FILE, Audit } from '../../../packages/tiering/dist/migration/moves.js';
import { temporaryFolder } from '../../support/temporary.js';
import { watchedDisk } from '../../support/watched-disk.js';

function lines(folder: string): unknown[] {
  const text = readFileSync(join(folder, AUDIT_FILE), 'utf8');
  expect(text.endsWith('\n')).toBe(true);
  return text
    .slice(0, -1)
    .split('\n')
    .map((line) => JSON.parse(line));
}

describe('the log of moves', () => {
  it('is synced, lines of one moment together, in their order', async () => {
    const folder = temporaryFolder();
    let syncs = 0;
    const disk = watchedDisk(({ operation }, run) => {
      if (operation === 'sync') syncs += 1;
      return run();
    });
    const audit = new Audit(disk, folder, (error) => {
      throw error;
    });
    await audit.flush();
    for (let n = 0; n < 100; n += 1) audit.write({ n });
    expect(syncs).toBe(0);
    await audit.flush();
    expect(lines(folder)).toEqual(Array.from({ length: 100 }, (_, n) => ({ n })));
    expect(syncs).toBe(1);
    audit.write({ n: 100 });
    await audit.flush();
    expect(lines(folder)).toHaveLength(101);
    expect(syncs).toBe(2);
  });

  it.each([0, 1])('cuts off half a line that a crash has left behind %i others', async (before) => {
    const folder = temporaryFolder();
    const audit = new Audit(localDisk, folder, () => {});
    for (let n = 0; n < before; n += 1) audit.write({ n });
    await audit.flush();
    appendFileSync(join(folder, AUDIT_FILE), '{"n":2,"nam');
    const after = new Audit(localDisk, folder, () => {});
    after.write({ n: before });
    await after.flush();
    expect(lines(folder)).toHaveLength(before + 1);
    expect(lines(folder).at(-1)).toEqual({ n: before });
  });

  it('is durable with its directory when it is made, and at its 16 MiB replaces the one before', async () => {
    const folder = temporaryFolder();
    const path = join(folder, AUDIT_FILE);
    const syncs: unknown[] = [];
    const disk = watchedDisk(({ operation, path: given }, run) => {
      if (operation === 'syncDirectory') syncs.push(given);
      return run();
    });
    const audit = new Audit(disk, folder, (error) => {
      throw error;
    });
    const write = async (line: object) => {
      audit.write(line);
      await audit.flush();
    };
    await write({ n: 1 });
    await write({ n: 2 });
    expect(syncs).toEqual([folder]);
    const line = '{"n":4}\n';
    for (const [bytes, isFull] of [
      [16 * 2 ** 20 - line.length - 1, false],
      [16 * 2 ** 20 - line.length, true],
      [16 * 2 ** 20 - line.length, true],
    ] as const) {
      syncs.length = 0;
      const before = `${'x'.repeat(bytes - 1)}\n`;
      writeFileSync(path, before);
      await write({ n: 4 });
      expect(existsSync(path)).toBe(!isFull);
      expect(readFileSync(isFull ? `${path}.1` : path, 'utf8') === before + line).toBe(true);
      expect(syncs).toEqual(isFull ? [folder] : []);
    }
    await write({ n: 5 });
    expect(lines(folder)).toEqual([{ n: 5 }]);
  });

  it('takes lines while others are being written', async () => {
    const folder = temporaryFolder();
    let audit: Audit | undefined;
    let syncs = 0;
    const disk = watchedDisk(({ operation }, run) => {
      if (operation === 'sync') syncs += 1;
      if (operation === 'sync' && syncs === 1) for (const n of [2, 3]) audit!.write({ n });
      return run();
    });
    audit = new Audit(disk, folder, () => {});
    audit.write({ n: 1 });
    await audit.flush();
    expect(lines(folder)).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
    expect(syncs).toBe(2);
  });

  it.each(['openToUpdate', 'writeAt'])(
    'tells of a disk that refuses (%s), and goes on',
    async (given) => {
      const folder = temporaryFolder();
      const errors: unknown[] = [];
      let refuses = true;
      let [opened, closed] = [0, 0];
      const disk = watchedDisk(async ({ operation }, run) => {
        if (refuses && operation === given) throw new Error('no');
        const result = await run();
        if (operation === 'openToUpdate') opened += 1;
        if (operation === 'close') closed += 1;
        return result;
      });
      const audit = new Audit(disk, folder, (error) => errors.push(error));
      audit.write({ n: 1 });
      await audit.flush();
      refuses = false;
      audit.write({ n: 2 });
      await audit.flush();
      expect(errors).toHaveLength(1);
      expect(lines(folder)).toEqual([{ n: 2 }]);
      expect(closed).toBe(opened);
    },
  );
});
