import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { environmentName, flagName, STORE_CHANNELS } from '@stevedore/client';
import { CHANNELS } from '@stevedore/fastdfs';
import { problemBody, problemCodes } from '@stevedore/middleware/core';
import { MERGE_CHANNEL } from '@stevedore/staging';
import { startStorage, startTracker } from '@stevedore/storage';
import { describe, expect, onTestFinished, test } from 'vitest';
import { buildApp } from '../../gateway/dist/app.js';
import { storageOptions, trackerOptions } from '../../gateway/dist/node-options.js';
import { storageMetrics, trackerMetrics } from '../../gateway/dist/observe/node-metrics.js';
import { gatewayOptions } from '../../gateway/dist/options.js';
import { MemoryStore } from '../gateway/memory-store.js';
import { temporaryFolder } from '../support/temporary.js';

const REFERENCE = readFileSync(join(import.meta.dirname, '../../docs/REFERENCE.md'), 'utf8');

function rows(): string[][] {
  return REFERENCE.split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim().replaceAll('`', '')),
    );
}

describe('the reference', () => {
  test('lists every error code with its status, and no other', () => {
    const listed = rows()
      .filter((cells) => cells.length === 3 && /^\d{3}$/.test(cells[1]!))
      .map(([code, status]) => `${code} ${status}`);
    const known = problemCodes().map((code) => `${code} ${problemBody(code, '').status}`);
    expect(listed.sort()).toEqual(known.sort());
  });

  test('lists every option with its flag and environment variable, and no other', () => {
    const listed = rows()
      .filter((cells) => cells.length === 5)
      .map(([key, flag, environment]) => `${key} ${flag} ${environment}`);
    const known = Object.keys(gatewayOptions).map(
      (key) => `${key} ${flagName(key)} ${environmentName(key)}`,
    );
    expect(listed.sort()).toEqual(known.sort());
  });

  test('lists every option of trackers and storages, and no other', () => {
    const listed = rows()
      .filter((cells) => cells.length === 4 && cells[0]!.startsWith('--'))
      .map(([flag, environment]) => `${flag} ${environment}`);
    const known = [storageOptions, trackerOptions]
      .flatMap((table) => Object.keys(table))
      .map((key) => `${flagName(key)} ${environmentName(key)}`);
    expect(listed.sort()).toEqual(known.sort());
  });

  test('lists every diagnostics channel, and no other', () => {
    const listed = rows()
      .filter((cells) => cells.length === 2 && cells[0]!.startsWith('stevedore.'))
      .map(([name]) => name);
    const known = [...Object.values(STORE_CHANNELS), ...Object.values(CHANNELS), MERGE_CHANNEL];
    expect(listed.sort()).toEqual(known.sort());
  });

  test('lists every metric with its type, labels and meaning, and no other', async () => {
    const app = buildApp({ store: new MemoryStore() });
    onTestFinished(() => app.close());
    await app.inject('/health/live');
    const { body } = await app.inject('/metrics');
    const types = new Map([...body.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, a, b]) => [a, b]));
    const known = [...body.matchAll(/^# HELP (\S+) (.*)$/gm)].map(
      ([, name, help]) => `${name} ${types.get(name)} ${help}`,
    );
    const listed = rows()
      .filter((cells) => cells.length === 4 && cells[0]!.startsWith('stevedore_'))
      .map(([name, type, , help]) => `${name} ${type} ${help}`);
    expect(listed.sort()).toEqual(known.sort());
  });

  test('lists every metric of trackers and storages, and no other', async () => {
    const tracker = await startTracker({ port: 0 });
    const storage = await startStorage({
      port: 0,
      storePaths: [temporaryFolder()],
      tiers: { enabled: true, bytesPerSecond: 1e8 },
    });
    onTestFinished(async () => {
      await storage.close();
      await tracker.close();
    });
    const known = new Set<string>();
    for (const text of [await storageMetrics(storage)(), await trackerMetrics(tracker)()]) {
      const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, a, b]) => [a, b]));
      for (const [, name = '', help] of text.matchAll(/^# HELP (stevedore_\S+) (.*)$/gm)) {
        if (!name.startsWith('stevedore_cache_')) known.add(`${name} ${types.get(name)} ${help}`);
      }
    }
    const listed = rows()
      .filter((cells) => cells.length === 3 && cells[0]!.startsWith('stevedore_'))
      .map((cells) => cells.join(' '));
    expect(listed.sort()).toEqual([...known].sort());
  });
});
