import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../../support/paths.js';

/** What npm shows of a package, and what it brings where it is installed. */

interface Manifest {
  readonly description?: string;
  readonly keywords?: readonly string[];
  readonly repository?: object;
  readonly homepage?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

interface Workspace {
  readonly version: string;
  readonly license: string;
  readonly repository: object;
  readonly homepage: string;
  readonly bugs: string;
  readonly engines: object;
}

const PACKAGES = join(ROOT, 'packages');
const workspace = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Workspace;
const IMPORT = /(?:from|import)\s*\(?\s*'((?:@[\w.-]+\/)?[\w.-]+)[^']*'/g;

test.each(readdirSync(PACKAGES))('%s brings the types that its declarations name', (name) => {
  const folder = join(PACKAGES, name);
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
  const { dependencies = {}, peerDependencies = {} } = manifest;
  const missing = importsOf(join(folder, 'dist'))
    .filter((wanted) => !(wanted in peerDependencies))
    .filter((wanted) => !(wanted in dependencies) || !isTyped(folder, wanted, dependencies));
  expect(missing).toEqual([]);
});

test.each([...readdirSync(PACKAGES).map((name) => `packages/${name}`), 'gateway'])(
  '%s says what it is and where it is kept, and its source maps have the sources',
  (name) => {
    const folder = join(ROOT, name);
    const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
    expect(manifest.description).toMatch(/\w/);
    expect(manifest.keywords).toContain('fastdfs');
    const { version, license, repository, homepage, bugs, engines } = workspace;
    expect(manifest).toMatchObject({ version, license, bugs, engines });
    expect(manifest.repository).toEqual({ ...repository, directory: name });
    expect(manifest.homepage).toBe(homepage.replace('#', `/tree/main/${name}#`));
    expect(readFileSync(join(folder, 'README.md'), 'utf8')).toMatch(/^# @stevedore\//);
    const dist = join(folder, 'dist');
    const maps = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((file) =>
      file.endsWith('.js.map'),
    );
    expect(maps).not.toEqual([]);
    for (const map of maps) {
      const { sources, sourcesContent } = JSON.parse(readFileSync(join(dist, map), 'utf8')) as {
        readonly sources: readonly string[];
        readonly sourcesContent?: readonly string[];
      };
      const texts = sources.map((source) => readFileSync(join(dist, dirname(map), source), 'utf8'));
      expect(sourcesContent, map).toEqual(texts);
    }
  },
);

test('no page, help or example runs or installs the package `stevedore`, which is of others', () => {
  const folders = ['docs', 'packages', 'gateway', 'examples'];
  const files = folders
    .flatMap((folder) => filesIn(folder))
    .concat('README.md', 'CHANGELOG.md', 'package.json');
  expect(files.length).toBeGreaterThan(400);
  const fetching =
    /\b(?:npx|npm exec|npm i|npm install|npm add|pnpm dlx) (?:(?!--no )-\S+ )*stevedore\b(?!\/)/;
  expect('npx -y stevedore put').toMatch(fetching);
  expect('npx --no -- stevedore put').not.toMatch(fetching);
  // Without the dashes, npm answers `--help` and `--version` itself.
  const withoutDashes = /\bnpx --no stevedore/;
  const isWrong = (text: string) => fetching.test(text) || withoutDashes.test(text);
  expect(files.filter((file) => isWrong(readFileSync(join(ROOT, file), 'utf8')))).toEqual([]);
});

test('dependencies that wait for a later Node stay at the versions that the page says', () => {
  const page = readFileSync(join(ROOT, 'docs/CONTRIBUTING.md'), 'utf8');
  const manifests = filesIn('.').filter((path) => /(?:^|\/)package\.json$/.test(path));
  const used = manifests.flatMap((path) => {
    const manifest = JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as Manifest;
    return Object.entries({ ...manifest.dependencies, ...manifest.devDependencies });
  });
  const [, section = ''] = page.split('## Dependencies');
  const rows = [...section.matchAll(/`([@/\w-]+)` ([\d.]*\d)/g)];
  expect(rows.length).toBeGreaterThan(5);
  for (const [, name, stays] of rows) {
    const versions = used.filter(([each]) => each === name).map(([, version]) => version);
    expect(versions, name).not.toEqual([]);
    for (const version of versions) expect(version, name).toMatch(new RegExp(`^\\^?${stays}\\.`));
  }
});

/** Of a folder of the workspace, without what is built or installed. */
function filesIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isFile()) return path;
    return entry.isDirectory() && !/^(?:dist|node_modules|\.git)$/.test(entry.name)
      ? filesIn(path)
      : [];
  });
}

function importsOf(dist: string): string[] {
  const names = readdirSync(dist, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.d.ts'))
    .flatMap((file) => [...readFileSync(join(dist, file), 'utf8').matchAll(IMPORT)])
    .map(([, name]) => name!)
    .filter((name) => !name.startsWith('.') && !name.startsWith('node'));
  return [...new Set(names)];
}

function isTyped(
  folder: string,
  name: string,
  dependencies: Readonly<Record<string, string>>,
): boolean {
  if (name.startsWith('@stevedore/') || `@types/${name}` in dependencies) return true;
  const { resolve } = createRequire(join(folder, 'package.json'));
  const found = (resolve.paths(name) ?? [])
    .map((path) => join(path, name))
    .find((path) => existsSync(join(path, 'package.json')));
  if (found === undefined) return false;
  const text = readFileSync(join(found, 'package.json'), 'utf8');
  const { main = 'index.js' } = JSON.parse(text) as { readonly main?: string };
  // Named by its manifest, or beside its main file.
  return (
    /"(?:types|typings)":/.test(text) || existsSync(join(found, main.replace(/(\.js)?$/, '.d.ts')))
  );
}
