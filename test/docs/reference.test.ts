import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { STORE_CHANNELS } from '@stevedore/client';
import { CHANNELS } from '@stevedore/fastdfs';
import { problemBody, problemCodes } from '@stevedore/middleware/core';
import { startStorage } from '@stevedore/node';
import {
  environmentName,
  flagName,
  fromProgram,
  type OptionSpec,
  type OptionTable,
  parseOptions,
} from '@stevedore/options';
import { startTracker } from '@stevedore/tracker';
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

/** What an option is when its cell of defaults is typed. */
function typed(spec: OptionSpec, cell: string): unknown {
  const text = cell.replace(/ \(.*\)$/, '');
  const words: Record<string, unknown> = {
    none: spec.kind === 'list' ? [] : '',
    on: true,
    off: false,
  };
  return parseOptions({ spec }, [fromProgram({ spec: words[text] ?? text })]).spec;
}

function expectDefaults(table: OptionTable, cells: readonly (readonly [string, string])[]): void {
  const byFlag = new Map(Object.entries(table).map(([key, spec]) => [flagName(key), spec]));
  for (const [flag, cell] of cells) {
    const spec = byFlag.get(flag)!;
    expect(typed(spec, cell), flag).toEqual(spec.default);
  }
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
    const options = rows().filter((cells) => cells.length === 5);
    expectDefaults(
      gatewayOptions,
      options.map(([, flag, , cell]) => [flag!, cell!]),
    );
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

  test.each([
    ['storage', storageOptions],
    ['tracker', trackerOptions],
  ])('has the defaults of a %s', (name, table) => {
    const [, section = ''] = REFERENCE.split(`| flag of \`stevedore ${name}\` |`);
    const lines = section.slice(0, section.indexOf('\n\n')).split('\n').slice(2);
    const cells = lines.map((line) => line.replaceAll('`', '').split('|'));
    expect(cells).toHaveLength(Object.keys(table).length);
    expectDefaults(
      table,
      cells.map(([, flag = '', , cell = '']) => [flag.trim(), cell.trim()]),
    );
  });

  test('lists every diagnostics channel, and no other', () => {
    const listed = rows()
      .filter((cells) => cells.length === 2 && cells[0]!.startsWith('stevedore.'))
      .map(([name]) => name);
    const known = [...Object.values(STORE_CHANNELS), ...Object.values(CHANNELS), 'stevedore.merge'];
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
