import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { expect, test } from 'vitest';

/** What a package's declarations import is there where the package is installed. */

interface Manifest {
  readonly description?: string;
  readonly keywords?: readonly string[];
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

const PACKAGES = join(import.meta.dirname, '../../packages');
const GATEWAY = join(import.meta.dirname, '../../gateway');
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

test.each([...readdirSync(PACKAGES).map((name) => join(PACKAGES, name)), GATEWAY])(
  '%s says what it is, and its source maps have the sources',
  (folder) => {
    const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
    expect(manifest.description).toMatch(/\w/);
    expect(manifest.keywords).toContain('fastdfs');
    expect(readFileSync(join(folder, 'README.md'), 'utf8')).toMatch(/^# @stevedore\//);
    const map = readdirSync(join(folder, 'dist')).find((file) => file.endsWith('.js.map'))!;
    const { sources, sourcesContent } = JSON.parse(
      readFileSync(join(folder, 'dist', map), 'utf8'),
    ) as { sources: string[]; sourcesContent?: string[] };
    const [source] = sources;
    expect(sourcesContent).toEqual([readFileSync(join(folder, 'dist', source!), 'utf8')]);
  },
);

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
