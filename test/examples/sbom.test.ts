import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT, readManifest } from '../support/packed.js';
import { temporaryFolder } from '../support/temporary.js';

/** The bill of materials that is published with a version. */

interface Component {
  readonly name: string;
  readonly version: string;
  readonly licenses?: readonly object[];
  readonly hashes?: readonly object[];
}

const manifests = [...readdirSync(join(ROOT, 'packages')).map((name) => `packages/${name}`)]
  .concat('gateway')
  .map(readManifest);

test('the bill lists what the packages need at run time, with version and licence, and no more', () => {
  const folder = temporaryFolder();
  execFileSync(process.execPath, [join(ROOT, '.ci/sbom.mjs'), folder], { stdio: 'pipe' });
  const text = readFileSync(join(folder, 'stevedore.cdx.json'), 'utf8');
  const bill = JSON.parse(text) as {
    readonly bomFormat: string;
    readonly metadata: { readonly component: Component };
    readonly components: readonly Component[];
    readonly dependencies: readonly { readonly ref: string; readonly dependsOn?: string[] }[];
  };
  const { name, version } = readManifest('.');
  expect(bill).toMatchObject({
    bomFormat: 'CycloneDX',
    metadata: { component: { name, version } },
  });
  for (const { name: own, version: at, ...needs } of manifests) {
    const { dependencies, optionalDependencies, peerDependencies = {} } = needs;
    const needed = Object.entries({ ...dependencies, ...optionalDependencies }).map(
      ([each, exact]) => (exact === 'workspace:*' ? `${each}@${version}` : `${each}@${exact}`),
    );
    const found = bill.dependencies.find(({ ref }) => ref === `${own}@${at}`)?.dependsOn ?? [];
    // The gateway brings one that the middleware leaves to the app.
    const listed = found.filter((each) => !(each.replace(/@[^@]*$/, '') in peerDependencies));
    expect(listed.toSorted(), own).toEqual(needed.toSorted());
  }
  for (const { name: each, licenses = [], hashes = [] } of bill.components) {
    expect([licenses.length, hashes.length], each).toEqual([1, 1]);
  }
  const own = new Set(manifests.map((each) => each.name));
  const names = bill.components.map((each) => each.name);
  for (const each of Object.keys(readManifest('.').devDependencies ?? {})) {
    if (!each.startsWith('@types/')) expect(names.includes(each), each).toBe(own.has(each));
  }
  // Nothing of the machine that wrote it.
  expect(text).not.toContain('file:');
});
