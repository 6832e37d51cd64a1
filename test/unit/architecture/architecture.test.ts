import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../../support/paths.js';
import {
  entriesOf,
  exportedClasses,
  exportedValues,
  filesBelow,
  importsOf,
  PACKAGES,
  resolved,
  SOURCES,
  textOf,
} from '../../support/sources.js';
import { PROJECTS } from '../../tools/projects.js';

/** The rules that keep the workspace readable. */

/** What each package may import of ours. docs/ARCHITECTURE.md draws the same. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  async: [],
  protocol: [],
  disk: [],
  options: [],
  balance: [],
  browser: [],
  cache: ['async'],
  map: ['disk'],
  wire: ['options', 'protocol'],
  fastdfs: ['async', 'protocol', 'wire'],
  staging: ['async', 'protocol', 'disk'],
  tracker: ['options', 'protocol', 'wire'],
  storage: ['options', 'async', 'protocol', 'disk', 'cache', 'wire'],
  tiering: ['options', 'protocol', 'disk', 'balance', 'wire', 'fastdfs', 'storage'],
  node: ['wire', 'disk', 'tracker', 'storage', 'tiering'],
  client: ['async', 'protocol', 'options', 'cache', 'fastdfs', 'map', 'staging', 'node'],
  middleware: ['client'],
  pictures: ['client', 'middleware'],
  gateway: [
    'browser',
    'protocol',
    'options',
    'wire',
    'tracker',
    'storage',
    'tiering',
    'node',
    'client',
    'middleware',
    'pictures',
  ],
};

test('docs/ARCHITECTURE.md has the same table', () => {
  const drawn: Record<string, string[]> = {};
  for (const line of textOf('docs/ARCHITECTURE.md').split('\n')) {
    const [, importers = '', imported = '', rest] = line.split('|');
    const names = (cell: string) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name!);
    if (rest === undefined || !names(importers).every((name) => name in MAY_IMPORT)) continue;
    for (const name of names(importers)) drawn[name] = names(imported).sort();
  }
  const table = Object.entries(MAY_IMPORT).map(([name, all]) => [name, [...all].sort()]);
  expect(drawn).toEqual(Object.fromEntries(table));
});

const packageOf = (path: string): string => path.split('/')[path.startsWith('packages/') ? 1 : 0]!;

test('packages import one way', () => {
  const wrong = SOURCES.flatMap((path) =>
    importsOf(path)
      .map((imported) => /^@stevedore\/([\w-]+)/.exec(imported)?.[1])
      .filter((name) => name !== undefined && !MAY_IMPORT[packageOf(path)]!.includes(name))
      .map((name) => `${path} imports ${name}`),
  );
  expect(wrong).toEqual([]);
});

test('what accepts files neither merges nor repairs', () => {
  const accepting = filesBelow('packages/staging/src/accept', '.ts');
  expect(accepting.length).toBeGreaterThan(2);
  const wrong = accepting.flatMap((path) =>
    importsOf(path).filter((name) => /^\.\.\/(?:merge|repair)\//.test(name)),
  );
  expect(wrong).toEqual([]);
});

test('the client is a few folders of at most 15 files', () => {
  const folders = new Map<string, string[]>();
  for (const path of filesBelow('packages/client/src', '.ts')) {
    folders.set(dirname(path), [...(folders.get(dirname(path)) ?? []), basename(path, '.ts')]);
  }
  const atTop = folders.get('packages/client/src')?.toSorted();
  expect(atTop).toEqual(['given-options', 'index', 'internal', 'options']);
  expect(folders.size).toBeGreaterThan(5);
  expect([...folders].filter(([, names]) => names.length > 15)).toEqual([]);
});

test('no file imports itself by way of others', () => {
  const files = [...SOURCES, ...filesBelow('bench/src', '.ts')];
  const graph = new Map(
    files.map((path) => [
      path,
      importsOf(path)
        .filter((name) => name.startsWith('.'))
        .map((name) => resolved(path, name)),
    ]),
  );
  expect(circlesIn(graph)).toEqual([]);
});

const foldersIn = (path: string): string[] =>
  readdirSync(join(ROOT, path), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !/^(dist|node_modules)$/.test(entry.name))
    .map(({ name }) => name);

/** Folders of tests that are of no package. */
const OTHERS = [
  'architecture',
  'attack',
  'bench',
  'cli',
  'deployment',
  'docs',
  'examples',
  'gateway',
];

test('folders of tests say what they need; in them they mirror the packages', () => {
  const projects = PROJECTS.map(({ name }) => name);
  const expected = [...projects, 'support', 'tools', 'vectors'].toSorted();
  expect(foldersIn('test').toSorted()).toEqual(expected);
  const packages = PACKAGES.map((path) => path.slice('packages/'.length));
  const folders = [
    ...new Set(['unit', 'server', 'system'].flatMap((project) => foldersIn(`test/${project}`))),
  ];
  expect(packages.filter((name) => !folders.includes(name))).toEqual([]);
  expect(folders.filter((name) => !packages.includes(name)).toSorted()).toEqual(OTHERS);
  const rows = textOf('docs/CONTRIBUTING.md').match(/^\|.*`npm run test:\w+`.*$/gm) ?? [];
  const named = rows.flatMap((row) => [...row.matchAll(/`npm run test:(\w+)`/g)].map(([, n]) => n));
  expect(named.toSorted()).toEqual(projects.filter((name) => name !== 'sample').toSorted());
});

test('hooks stand in the files of tests: what they share registers its end by the test', () => {
  const atTop = /^(?:before|after)(?:All|Each)\(/m;
  const shared = filesBelow('test', '.ts').filter((path) => !path.endsWith('.test.ts'));
  expect(shared.length).toBeGreaterThan(30);
  // Files of one worker share modules, so that such a hook would run for the first file alone.
  expect(shared.filter((path) => atTop.test(textOf(path)))).toEqual([]);
});

test('synchronous child processes of tests have a time limit', () => {
  const unlimited = /\b(?:exec|execFile|spawn)Sync\b[^;]*from 'node:child_process'/;
  const wrong = filesBelow('test', '.ts').filter((path) => unlimited.test(textOf(path)));
  expect(wrong).toEqual([]);
});

/** Over 400 lines, because a cut would part what one has to see together. */
const LONG: Readonly<Record<string, string>> = {
  'packages/client/src/deployment/deployment.ts':
    'all that a server tells the map and hears from it',
  'packages/staging/src/container/container.ts':
    'group commit, from an append to its acknowledgement',
  'packages/staging/src/container/unfinished.ts':
    'the format of unfinished uploads and its recovery',
  'packages/storage/src/replication/peer-sender.ts': 'the life of one connection to a peer',
  'gateway/src/access/ledger.ts': 'one ledger of quotas, rates and marks',
  'gateway/src/workers/primary.ts': 'the life of the worker processes',
};

test('a source has at most 500 lines, and more than 400 only for a reason', () => {
  const linesOf = (path: string) => textOf(path).split('\n').length - 1;
  const long = SOURCES.filter((path) => linesOf(path) > 400);
  expect(long.toSorted()).toEqual(Object.keys(LONG).toSorted());
  expect(long.filter((path) => linesOf(path) > 500)).toEqual([]);
});

/** These still do. */
const PACKING: readonly string[] = [
  'packages/client/src/adoption/adoption.ts',
  'packages/client/src/adoption/ask-adoption.ts',
  'packages/client/src/deployment/deployment.ts',
  'packages/client/src/deployment/gateways.ts',
  'packages/client/src/deployment/partners.ts',
  'packages/staging/src/container/container.ts',
  'packages/staging/src/upkeep/compaction.ts',
];

test('properties are written out, not packed into an object that is unpacked at once', () => {
  const wrong = SOURCES.filter((path) => /^\s*\.\.\.\{/m.test(textOf(path)));
  expect(wrong.filter((path) => !PACKING.includes(path))).toEqual([]);
});

test('no two exported classes have one name', () => {
  const places = new Map<string, string[]>();
  for (const path of SOURCES) {
    for (const name of exportedClasses(path)) {
      places.set(name, [...(places.get(name) ?? []), path]);
    }
  }
  expect([...places].filter(([, paths]) => paths.length > 1)).toEqual([]);
});

test('what a package exports to be called is used elsewhere, or documented', () => {
  const users = [
    ...SOURCES,
    ...['bench/src', 'test'].flatMap((folder) => filesBelow(folder, '.ts')),
    ...['.ts', '.js', '.mjs'].flatMap((extension) => filesBelow('examples', extension)),
  ].map((path) => ({ path, text: textOf(path) }));
  const documents = DOCUMENTS.map(textOf).join('\n');
  const unused = PACKAGES.flatMap((folder) => {
    const outside = users.filter(({ path }) => !path.startsWith(`${folder}/src/`));
    return entriesOf(folder).flatMap((entry) =>
      exportedValues(entry)
        .filter((name) => {
          const word = new RegExp(`\\b${name}\\b`);
          return !word.test(documents) && !outside.some(({ text }) => word.test(text));
        })
        .map((name) => `${entry}: ${name}`),
    );
  });
  expect(unused).toEqual([]);
});

const DOCUMENTS = [
  'README.md',
  'CHANGELOG.md',
  ...['docs', 'packages', 'gateway', 'bench', 'examples'].flatMap((folder) =>
    filesBelow(folder, '.md'),
  ),
];

test('links of documents lead to files and headings that exist', () => {
  const broken = DOCUMENTS.flatMap((path) =>
    [...textOf(path).matchAll(/\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)/g)]
      .filter(([, file = '', heading]) => {
        const target = file === '' ? path : join(dirname(path), file);
        if (!existsSync(join(ROOT, target))) return true;
        return heading !== undefined && !headingsOf(target).includes(heading);
      })
      .map(([link]) => `${path}: ${link}`),
  );
  expect(broken).toEqual([]);
});

test('adapters use only the calls of a response that every wrapper of it knows', () => {
  const calls =
    /\.writeHead\([^)]*,|\.(?:_header|_headerSent|_implicitHeader|_storeHeader|_send)\b/g;
  const wrong = SOURCES.filter((path) => packageOf(path) === 'middleware').flatMap((path) =>
    [...textOf(path).matchAll(calls)].map(([call]) => `${path}: ${call}`),
  );
  expect(wrong).toEqual([]);
});

test('what is of the language is told by its properties, not by its class: there may be two', () => {
  const classes =
    'Error|AggregateError|RangeError|SyntaxError|TypeError|DOMException|Uint8Array|Buffer|ArrayBuffer|DataView|Date|Promise|Array|Map|Object|RegExp|Set';
  const wrong = SOURCES.flatMap((path) =>
    [...textOf(path).matchAll(new RegExp(`^.*\\binstanceof (?:${classes})\\b.*$`, 'gm'))].map(
      ([line]) => `${path}: ${line.trim()}`,
    ),
  );
  expect(wrong).toEqual([]);
});

/** Without the programs of guides, whose files are in the reader's app. */
function withoutApps(document: string): string {
  return document.replace(/^```\w+\n\/\/ \S+\n.*?^```$/gms, '');
}

test('paths that documents and comments name exist', () => {
  const code = [...SOURCES, ...['bench/src', 'test'].flatMap((each) => filesBelow(each, '.ts'))];
  const broken = [...DOCUMENTS, ...code].flatMap((path) => {
    const text = path.endsWith('.md') ? withoutApps(textOf(path)) : commentsOf(textOf(path));
    return [...text.matchAll(/(?<![\w./@-])((?:[\w-]+\/)+[\w.-]+\.(?:ts|md|mjs|js))\b/g)]
      .map(([, named]) => named!)
      .filter((named) => !PLACES.some((place) => existsSync(join(ROOT, place(path), named))))
      .map((named) => `${path}: ${named}`);
  });
  expect(broken).toEqual([]);
});

/** Of a package, or at the top. */
const folderOf = (path: string): string =>
  path
    .split('/')
    .slice(0, path.startsWith('packages/') ? 2 : 1)
    .join('/');

/** Where a path may begin: at the root, beside who names it, in its package, among packages. */
const PLACES: readonly ((path: string) => string)[] = [
  () => '.',
  dirname,
  (path) => folderOf(path),
  (path) => `${folderOf(path)}/src`,
  () => 'packages',
];

function commentsOf(text: string): string {
  return [...text.matchAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm)]
    .map(([comment]) => comment)
    .join('\n');
}

/** As the readers of Markdown make them. */
function headingsOf(path: string): string[] {
  return [...textOf(path).matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replace(/ /g, '-'),
  );
}

/** The paths that lead back to where they have been. */
function circlesIn(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const seen = new Set<string>();
  const circles: string[][] = [];
  const visit = (path: string, way: readonly string[]): void => {
    if (way.includes(path)) circles.push([...way.slice(way.indexOf(path)), path]);
    if (seen.has(path)) return;
    seen.add(path);
    for (const next of graph.get(path) ?? []) visit(next, [...way, path]);
  };
  for (const path of graph.keys()) visit(path, []);
  return circles;
}
