import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../../support/paths.js';

/** Nothing of the metadata tier is in the way where it is off. */

const PACKAGES = join(ROOT, 'packages');
const IMPORT = /^(?:import|export)\s[^'"]*?from\s+'([^']+)'|^import\s+'([^']+)'/gm;

/** What loading the module loads, before anything runs: files of ours, and names of all else. */
function loadedBy(path: string, known = new Set<string>()): Set<string> {
  if (known.has(path)) return known;
  known.add(path);
  for (const [, from, alone] of readFileSync(join(PACKAGES, path), 'utf8').matchAll(IMPORT)) {
    const name = from ?? alone!;
    const ours = /^@stevedore\/([\w-]+)(?:\/([\w-]+))?$/.exec(name);
    if (name.startsWith('.')) loadedBy(join(dirname(path), name), known);
    else if (ours) loadedBy(`${ours[1]}/dist/${ours[2] ?? 'index'}.js`, known);
    else known.add(name);
  }
  return known;
}

test.each(['index.js', 'embedded-worker.js'])('%s loads nothing of the metadata tier', (module) => {
  const loaded = [...loadedBy(`node/dist/${module}`)];
  expect(loaded).toContain('storage/dist/open-storage.js');
  expect(loaded.filter((name) => /^(tiering|balance|fastdfs)\//.test(name))).toEqual([]);
  expect(loaded).not.toContain('disk/dist/sqlite.js');
});
