import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** The packages as npm would have them: packed, and installed in a project outside the workspace. */

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

interface Manifest {
  readonly packageManager: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly scripts: Readonly<Record<string, string>>;
}

export interface Packed {
  /** The caller removes it. */
  readonly folder: string;
  /** Archives by the name of their package. */
  readonly archives: ReadonlyMap<string, string>;
}

export async function packPackages(): Promise<Packed> {
  const folder = mkdtempSync(join(tmpdir(), 'stevedore-'));
  const which = ['--filter', './packages/*', '--filter', './gateway'];
  await pnpm(ROOT, '--recursive', ...which, 'pack', '--pack-destination', folder);
  const archives = readdirSync(folder).map((file) => {
    const name = file.replace(/^stevedore-(.+)-\d+\.\d+\.\d+\.tgz$/, '@stevedore/$1');
    return [name, join(folder, file)] as const;
  });
  return { folder, archives: new Map(archives) };
}

/** Resolves with the folder of a project that has the examples and nothing of the workspace. */
export async function installExamples({ folder, archives }: Packed): Promise<string> {
  const project = join(folder, 'project');
  mkdirSync(project);
  const examples = join(ROOT, 'examples');
  cpSync(join(examples, 'dist'), join(project, 'dist'), { recursive: true });
  const { dependencies, scripts } = readManifest(examples);
  const packed = Object.fromEntries(
    [...archives].map(([name, archive]) => [name, `file:${archive}`] as const),
  );
  const wanted = Object.entries(dependencies).map(([name, range]) => [name, packed[name] ?? range]);
  const manifest = {
    ...{ name: 'examples', type: 'module', private: true, scripts },
    dependencies: Object.fromEntries(wanted),
    pnpm: { overrides: packed, onlyBuiltDependencies: ['better-sqlite3'] },
  };
  writeFileSync(join(project, 'package.json'), JSON.stringify(manifest));
  await pnpm(project, 'install', '--ignore-workspace', '--prefer-offline');
  return project;
}

function pnpm(cwd: string, ...args: string[]): Promise<unknown> {
  return run('npx', ['-y', readManifest(ROOT).packageManager, ...args], { cwd });
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
}
