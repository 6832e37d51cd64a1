/**
 * Packs the packages and writes the bill of what they need at run time, on every system, as
 * CycloneDX: `node .ci/sbom.mjs [FOLDER]` leaves the archives and stevedore.cdx.json in the folder
 * (dist/packages). npm resolves the archives as it would for somebody who installs them today.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { BUNDLED, installed, pack, root, run } from './pack.mjs';

const folder = resolve(process.argv[2] ?? join(root, 'dist', 'packages'));
const archives = await pack(folder);
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
// What lies within an archive is not installed, and has a checksum in our own lock file alone.
const lock = readFileSync(join(root, 'pnpm-lock.yaml'), 'utf8');
for (const each of BUNDLED) {
  const { name, version, license } = JSON.parse(
    readFileSync(join(installed(each), 'package.json'), 'utf8'),
  );
  const integrity = lock.split(`'${name}@${version}':`)[1].match(/sha512-([\w+/=]+)/)[1];
  const purl = `pkg:npm/${encodeURIComponent(name)}@${version}`;
  const hashes = [{ alg: 'SHA-512', content: Buffer.from(integrity, 'base64').toString('hex') }];
  const licenses = [{ license: { id: license } }];
  bill.components.push({ type: 'library', 'bom-ref': purl, name, version, purl, hashes, licenses });
}
const file = join(folder, 'stevedore.cdx.json');
writeFileSync(file, `${JSON.stringify(bill, undefined, 2)}\n`);
console.log(`wrote ${file}: ${bill.components.length} components`);
