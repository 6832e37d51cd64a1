import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { ROOT } from './paths.js';

/**
 * The workspace as text: its files, what each imports and what each exports. The formatter
 * writes every statement in one way, so that expressions are enough to find them.
 */

const LEFT_OUT = new Set(['node_modules', 'dist', '.git', 'vectors']);

/** Paths below the workspace's root, with `/`. */
export function filesBelow(folder: string, extension: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true })
    .filter(({ name }) => !LEFT_OUT.has(name))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return filesBelow(path, extension);
      return entry.name.endsWith(extension) ? [path] : [];
    });
}

export function textOf(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

export const PACKAGES = readdirSync(join(ROOT, 'packages')).map((name) => `packages/${name}`);

/** Source files of packages and gateway. */
export const SOURCES = [...PACKAGES, 'gateway'].flatMap((folder) =>
  filesBelow(`${folder}/src`, '.ts'),
);

const FROM = /^(?:import|export|\})[^'\n]*?(?:from )?'([^']+)';$|\bimport\('([^']+)'\)/gm;

/** What the file imports or exports from, types and later imports too, as it is written. */
export function importsOf(path: string): string[] {
  return [...textOf(path).matchAll(FROM)].map(([, first, later]) => (first ?? later)!);
}

/** The source file that a relative import of `path` leads to. */
export function resolved(path: string, imported: string): string {
  return relative(ROOT, join(ROOT, dirname(path), imported)).replace(/\.js$/, '.ts');
}

/** Names of the classes that the file exports. */
export function exportedClasses(path: string): string[] {
  return names(textOf(path), /^export (?:abstract )?class (\w+)/gm);
}

/** The source files that the package's `exports` are built from. */
export function entriesOf(folder: string): string[] {
  const { exports } = JSON.parse(textOf(`${folder}/package.json`)) as {
    readonly exports: Readonly<Record<string, { readonly types: string }>>;
  };
  return Object.values(exports).map(({ types }) =>
    join(folder, types.replace('dist/', 'src/').replace('.d.ts', '.ts')),
  );
}

/** Classes, functions and constants that an entry exports; types belong to those. */
export function exportedValues(path: string): string[] {
  const text = textOf(path);
  const listed = [...text.matchAll(/^export \{([^}]*)\}/gm)]
    .flatMap(([, list]) => list!.split(','))
    .map((each) => each.trim())
    .filter((each) => each !== '' && !each.startsWith('type '));
  const all = [...text.matchAll(/^export \* from '(\.[^']+)'/gm)].flatMap(([, from]) =>
    exportedValues(resolved(path, from!)),
  );
  const own = names(text, /^export (?:abstract |async )*(?:class|function\*?|const) (\w+)/gm);
  return [...listed.map((name) => name.replace(/.* as /, '')), ...all, ...own];
}

function names(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, name]) => name!);
}
