import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { inject } from 'vitest';
import { ROOT } from './paths.js';
import { type AtTheEnd, ofSuite, temporaryFolder } from './temporary.js';

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

/** Paths of the archives by the name of their package. */
export const archives: Readonly<Record<string, string>> = inject('archives');

export interface Project {
  /** Default: all of ours. */
  readonly packages?: readonly string[];
  /** Of others, and their versions. */
  readonly others?: Readonly<Record<string, string>>;
  readonly scripts?: Manifest['scripts'];
}

/** Resolves with the folder of a project that has the examples and nothing of the workspace. */
export async function installExamples(): Promise<string> {
  const { dependencies = {}, scripts } = readManifest('examples');
  const others = Object.entries(dependencies).filter(([name]) => !(name in archives));
  const project = await installProject({ others: Object.fromEntries(others), scripts });
  cpSync(join(ROOT, 'examples/dist'), join(project, 'dist'), { recursive: true });
  return project;
}

/** Resolves with the folder of a project that has the packages. */
export async function installProject(
  { packages = Object.keys(archives), others = {}, scripts = {} }: Project,
  atTheEnd: AtTheEnd = ofSuite,
): Promise<string> {
  // npm names the project by its folder.
  const project = join(temporaryFolder(atTheEnd), 'project');
  mkdirSync(project);
  const manifest = { name: 'project', type: 'module', private: true, scripts };
  writeFileSync(join(project, 'package.json'), JSON.stringify(manifest));
  const ours = packages.map((name) => archives[name] ?? name);
  const versions = Object.entries(others).map(([name, version]) => `${name}@${version}`);
  const options = [
    '--engine-strict',
    '--ignore-scripts',
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
  ];
  await run('npm', ['install', ...options, ...ours, ...versions], { cwd: project });
  // What its install script would compile, for a minute.
  if (existsSync(join(project, dirname(BINDING)))) {
    cpSync(join(ROOT, 'packages/disk', BINDING), join(project, BINDING), { recursive: true });
  }
  return project;
}

/** Of a folder of the workspace. */
function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')) as Manifest;
}
