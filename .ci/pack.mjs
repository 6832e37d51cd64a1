/**
 * Packs every public package as npm publishes it. `node .ci/pack.mjs [FOLDER]` leaves the archives
 * of this version, and no others, in the folder (dist/packages).
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const PUBLIC = ['./packages/*', './gateway'];
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = resolve(process.argv[2] ?? join(root, 'dist', 'packages'));
  console.log(`packed ${pack(folder).length} packages into ${folder}`);
}

/** The paths of the archives. */
export function pack(folder) {
  mkdirSync(folder, { recursive: true });
  for (const archive of archivesIn(folder)) rmSync(archive);
  const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const filters = PUBLIC.flatMap((each) => ['--filter', each]);
  const packing = ['--recursive', ...filters, 'pack', '--pack-destination', folder];
  run('npx', ['-y', packageManager, ...packing], root);
  return archivesIn(folder);
}

/** What the command prints; ends this process if it fails. */
export function run(command, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    maxBuffer: 64 * 2 ** 20,
    shell: process.platform === 'win32',
  });
  if (status === 0) return stdout;
  console.error(`${command} ${args.join(' ')} failed: ${error?.message ?? stdout + stderr}`);
  process.exit(1);
}

function archivesIn(folder) {
  return readdirSync(folder)
    .filter((name) => /^stevedore-.+\.tgz$/.test(name))
    .map((name) => join(folder, name));
}
