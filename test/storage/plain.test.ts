import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { expect, test } from 'vitest';

/** Nothing of the metadata tier is in the way where it is off. */

const DIST = resolve(import.meta.dirname, '../../packages/storage/dist');
const IMPORT = /^(?:import|export)\s[^'"]*?from\s+'([^']+)'|^import\s+'([^']+)'/gm;

/** What loading the module loads, before anything runs. */
function loadedBy(module: string, known = new Set<string>()): Set<string> {
  const path = join(DIST, module);
  if (known.has(path)) return known;
  known.add(path);
  for (const [, from, alone] of readFileSync(path, 'utf8').matchAll(IMPORT)) {
    const name = from ?? alone!;
    if (name.startsWith('.')) loadedBy(join(dirname(module), name), known);
    else known.add(name);
  }
  return known;
}

test.each(['index.js', 'embedded-worker.js'])('%s loads nothing of the metadata tier', (module) => {
  const loaded = [...loadedBy(module)];
  expect(loaded).toContain(join(DIST, 'storage/open-storage.js'));
  expect(loaded.filter((name) => /dist\/(tiers|migration|scheduler)\//.test(name))).toEqual([]);
  for (const unneeded of ['@stevedore/balance', '@stevedore/fastdfs', '@stevedore/disk/sqlite']) {
    expect(loaded).not.toContain(unneeded);
  }
});
