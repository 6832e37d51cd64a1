import { execFile } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from './paths.js';

/** The packages as users get them: packed, then installed with npm in a project outside the workspace. */

const BINDING = 'node_modules/better-sqlite3/build';
const run = promisify(execFile);

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly scripts?: Readonly<Record<string, string>>;
}

export interface Packed {
  /** The caller removes it. */
  readonly folder: string;
  /** Archives by the name of their package. */
  readonly archives: ReadonlyMap<string, string>;
}

export async function packPackages(): Promise<Packed> {
  const folder = mkdtempSync(join(tmpdir(), 'stevedore-'));
  await run(process.execPath, [join(ROOT, '.ci/pack.mjs'), folder]);
  const archives = readdirSync(folder).map((file) => {
    const name = file.replace(/^stevedore-(.+?)-\d.*\.tgz$/, '@stevedore/$1');
    return [name, join(folder, file)] as const;
  });
  return { folder, archives: new Map(archives) };
}

/** Resolves with the folder of a project that has the examples and nothing of the workspace. */
export async function installExamples(packed: Packed): Promise<string> {
  const { dependencies = {}, scripts } = readManifest('examples');
  const others = Object.entries(dependencies).filter(([name]) => !packed.archives.has(name));
  const project = await installProject(packed, Object.fromEntries(others), scripts);
  cpSync(join(ROOT, 'examples/dist'), join(project, 'dist'), { recursive: true });
  return project;
}

/** Resolves with the folder of a project that has the packages, and others at these versions. */
export async function installProject(
  { folder, archives }: Packed,

  others: Readonly<Record<string, string>>,
  scripts: Manifest['scripts'] = {},
): Promise<string> {
  const project = join(folder, 'project');
  mkdirSync(project, { recursive: true });
  const manifest = { name: 'project', type: 'module', private: true, scripts };
  writeFileSync(join(project, 'package.json'), JSON.stringify(manifest));
  const versions = Object.entries(others).map(([name, version]) => `${name}@${version}`);
  const options = [
    '--engine-strict',
    '--ignore-scripts',
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
  ];
  await run('npm', ['install', ...options, ...archives.values(), ...versions], { cwd: project });
  // What its install script would compile, for a minute.
  if (existsSync(join(project, dirname(BINDING)))) {
    cpSync(join(ROOT, 'packages/disk', BINDING), join(project, BINDING), { recursive: true });
  }
  return project;
}

/** Of a folder of the workspace. */
export function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')) as Manifest;
}
