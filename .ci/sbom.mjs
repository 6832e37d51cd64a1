/**
 * Packs the packages and writes the bill of what they need at run time, on every system, as
 * CycloneDX: `node .ci/sbom.mjs [FOLDER]` leaves the archives and stevedore.cdx.json in the folder
 * (dist/packages). npm resolves the archives as it would for somebody who installs them today.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pack, root, run } from './pack.mjs';

const folder = resolve(process.argv[2] ?? join(root, 'dist', 'packages'));
const archives = pack(folder);
const { name, version, license } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const scratch = mkdtempSync(join(tmpdir(), 'stevedore-'));
// npm names what it lists by the folder.
const project = join(scratch, name);
mkdirSync(project);
writeFileSync(join(project, 'package.json'), JSON.stringify({ name, version, license }));
// The lock file alone has the packages of other systems, too.
const resolving = ['--package-lock-only', '--ignore-scripts', '--no-audit', '--no-fund'];
run('npm', ['install', ...resolving, ...archives], project);
const listing = ['--package-lock-only', '--sbom-format', 'cyclonedx'];
const bill = JSON.parse(run('npm', ['sbom', ...listing], project));
rmSync(scratch, { recursive: true });
for (const component of bill.components) {
  // Paths of this machine.
  component.externalReferences = component.externalReferences.filter(
    ({ url }) => !url.startsWith('file:'),
  );
}
const file = join(folder, 'stevedore.cdx.json');
writeFileSync(file, `${JSON.stringify(bill, undefined, 2)}\n`);
console.log(`wrote ${file}: ${bill.components.length} components`);
