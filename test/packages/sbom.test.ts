import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { execFileSync } from '../support/child-process.js';
import { type Manifest, readManifest } from '../support/packed.js';
import { ROOT } from '../support/paths.js';
import { temporaryFolder } from '../support/temporary.js';

/** The bill of materials that is published with a version. */

interface Component {
  readonly name: string;
  readonly version: string;
  readonly licenses?: readonly object[];
  readonly hashes?: readonly object[];
}

const PUBLIC = 5;

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
  const manifests = readdirSync(folder)
    .filter((file) => file.endsWith('.tgz'))
    .map((file) => ['-xzOf', join(folder, file), 'package/package.json'])
    .map((words) => JSON.parse(execFileSync('tar', words, { encoding: 'utf8' })) as Manifest);
  expect(manifests).toHaveLength(PUBLIC);
  expect(bill).toMatchObject({
    bomFormat: 'CycloneDX',
    metadata: { component: { name, version } },
  });
  for (const { name: own, version: at, ...needs } of manifests) {
    const { dependencies, optionalDependencies, peerDependencies = {} } = needs;
    const needed = Object.keys({ ...dependencies, ...optionalDependencies });
    const found = bill.dependencies.find(({ ref }) => ref === `${own}@${at}`)?.dependsOn ?? [];
    const names = found.map((each) => each.replace(/@[^@]*$/, ''));
    // The gateway brings some that the others leave to the app.
    expect(names.filter((each) => !(each in peerDependencies)).toSorted(), own).toEqual(
      needed.toSorted(),
    );
  }
  for (const { name: each, licenses = [], hashes = [] } of bill.components) {
    expect([licenses.length, hashes.length], each).toEqual([1, 1]);
  }
  const names = bill.components.map((each) => each.name);
  // Within an archive, and what it would bring if it were not.
  expect(names).toContain('@tus/server');
  expect(names).not.toContain('ioredis');
  for (const each of Object.keys(readManifest('.').devDependencies ?? {})) {
    if (!each.startsWith('@types/'))
      expect(names.includes(each), each).toBe(each === '@stevedore/gateway');
  }
  // Nothing of the machine that wrote it.
  expect(text).not.toContain('file:');
}, 180_000);
