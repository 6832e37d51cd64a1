import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Costs, costOf } from '@stevedore/balance';
import { decoratedDisk, decoratedFile, localDisk } from '@stevedore/disk';
import { systemEnvironment } from '@stevedore/wire';
import { describe, expect, it } from 'vitest';
import { openCosts } from '../../../packages/tiering/dist/scheduler/costs.js';
import { storageOf } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

const KEPT: Costs = { bytesPerSecond: 1e9, readMs: 5, writeMs: 7 };
const FILE = '.stevedore-calibration.json';

/**
 * Takes 10 ms for a sync and 1 ms for a read; of a byte less to read it than to write it. Now and
 * then the machine is busy with something else.
 */
function costsIn(folder: string, givenBytesPerSecond = 0): Promise<Costs> {
  let ms = 0;
  let syncs = 0;
  const disk = decoratedDisk(localDisk, {}, (file) =>
    decoratedFile(file, {
      readAt: async (target, position) => {
        ms += 1 + target.length / 1e6;
        return file.readAt(target, position);
      },
      writeAt: async (chunks, position) => {
        ms += chunks.reduce((sum, { length }) => sum + length, 0) / 1e5;
        await file.writeAt(chunks, position);
      },
      sync: async () => {
        syncs += 1;
        ms += syncs % 5 === 0 ? 1000 : 10;
      },
    }),
  );
  return openCosts(disk, folder, () => ms, givenBytesPerSecond);
}

const keep = (folder: string, content: string) => writeFileSync(join(folder, FILE), content);
const keptIn = (folder: string): unknown => JSON.parse(readFileSync(join(folder, FILE), 'utf8'));

describe('the costs of a disk', () => {
  it('are measured once, at the first start, and written down', async () => {
    const folder = temporaryFolder();
    const costs = await costsIn(folder);
    const large = 2 * 2 ** 20;
    expect((large / costs.bytesPerSecond) * 1000).toBeCloseTo(10 + large / 1e5, 3);
    expect(costs.writeMs).toBeCloseTo(10 + 1024 / 1e5, 3);
    expect(costs.readMs).toBeCloseTo(1 + 1024 / 1e6, 3);
    expect(keptIn(folder)).toEqual(costs);
    keep(folder, JSON.stringify({ ...KEPT, readMs: 0 }));
    expect(await costsIn(folder)).toEqual({ ...KEPT, readMs: 0 });
  });

  it('have the bandwidth that is given, and a request its share of the time', async () => {
    const folder = temporaryFolder();
    keep(folder, JSON.stringify(KEPT));
    const costs = await costsIn(folder, 2e6);
    expect(costs).toEqual({ ...KEPT, bytesPerSecond: 2e6 });
    expect(costOf(costs, 'read', 4000) / costs.bytesPerSecond).toBeCloseTo(0.005 + 0.002);
    expect(keptIn(folder)).toEqual(KEPT);
  });

  it.each([
    ['nothing', ''],
    ['a part', JSON.stringify(KEPT).slice(0, 40)],
    ['a text', JSON.stringify({ ...KEPT, readMs: '5' })],
    ['a value too few', JSON.stringify({ ...KEPT, writeMs: undefined })],
    ['a negative value', JSON.stringify({ ...KEPT, readMs: -1 })],
    ['no bandwidth', JSON.stringify({ ...KEPT, bytesPerSecond: 0 })],
  ])('are measured again where %s is kept of them', async (_what, content) => {
    const folder = temporaryFolder();
    keep(folder, content);
    const { bytesPerSecond, readMs, writeMs } = await costsIn(temporaryFolder());
    const again = await costsIn(folder);
    expect(again.bytesPerSecond).toBe(bytesPerSecond);
    expect(again.readMs + again.writeMs).toBeCloseTo(readMs + writeMs);
  });

  it('stay as they were measured, whatever a storage does', async () => {
    const folder = temporaryFolder();
    const tiers = { enabled: true, thresholdBytes: 8192, intervalMs: 10 };
    // A clock that goes on by a tenth of a millisecond whenever somebody looks.
    let ms = 0;
    const uptimeMs = (): number => {
      ms += 0.1;
      return ms;
    };
    const started = () =>
      storageOf({ folder, tiers, environment: { ...systemEnvironment, uptimeMs } });
    const first = await started();
    const measured = keptIn(join(folder, 'data'));
    const client = await first.connect();
    for (let n = 0; n < 40; n += 1) await client.upload(Buffer.alloc(100, n));
    await first.close();
    const second = await started();
    await second.close();
    expect(keptIn(join(folder, 'data'))).toEqual(measured);
  });
});
