import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { execFileSync } from '../support/child-process.js';
import { installProject } from '../support/packed.js';
import { ROOT } from '../support/paths.js';

/**
 * A program that uses what is published compiles whatever a `tsconfig.json` says of modules, with
 * the last TypeScript that knows the old ways, and with the one that has no others.
 */

const require = createRequire(import.meta.url);
const old = require('typescript-5') as typeof import('typescript-5');
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');
const OTHERS = {
  '@types/express': '5',
  '@types/multer': '2',
  '@types/node': '20.19',
  express: '5.3.0',
  fastify: '5.12.8',
  multer: '2.5.0',
};
const PROGRAM = `
import { upload as send } from '@stevedore/browser';
import { open, type FileStore } from '@stevedore/client';
import { connect } from '@stevedore/client/connect';
import { startGateway } from '@stevedore/gateway';
import { signedDownload } from '@stevedore/middleware/core';
import { files, upload } from '@stevedore/middleware/express';
import { stevedore } from '@stevedore/middleware/fastify';
import { httpHandler } from '@stevedore/middleware/http';
import { multerStorage } from '@stevedore/middleware/multer';
import { Pictures } from '@stevedore/pictures';
import type { RequestListener } from 'node:http';

export async function run(): Promise<void> {
  const store: FileStore = await open({ directory: './files' });
  files({ store, pictures: new Pictures({ store, sizes: ['320'] }) });
  upload(connect({ url: 'http://127.0.0.1:8888' }), { maxFiles: 2 });
  const handler: RequestListener = httpHandler({ store });
  const engine: import('multer').StorageEngine = multerStorage(store);
  const plugin: import('fastify').FastifyPluginAsync<{ store: FileStore }> = stevedore;
  const key: string = (await store.put('text')).key;
  // @ts-expect-error There is no such option.
  upload(store, { maxFile: 2 });
  // @ts-expect-error It is no number: the types were found.
  const wrong: number = [send, startGateway, signedDownload, handler, engine, plugin, key];
}
`;
const FILES = ['program.ts', 'program.mts', 'program.cts'];

const project = await installProject({ others: OTHERS });
for (const name of FILES) writeFileSync(join(project, name), PROGRAM);

test('the program names every entry of every package', () => {
  const names = ['browser', 'client', 'gateway', 'middleware', 'pictures'];
  for (const name of names.map((each) => `@stevedore/${each}`)) {
    const manifest = join(project, 'node_modules', name, 'package.json');
    const { exports } = JSON.parse(readFileSync(manifest, 'utf8')) as { exports: object };
    for (const path of Object.keys(exports)) {
      expect(PROGRAM).toContain(`from '${name}${path.slice(1)}'`);
    }
  }
});

test('TypeScript 5.9, every pair of module and moduleResolution', () => {
  const parsed = new Map<string, import('typescript-5').SourceFile | undefined>();
  const pairs: string[] = [];
  for (const [module, moduleResolution] of pairsOfOld()) {
    const options = {
      ...{ module, moduleResolution, strict: true, noUncheckedSideEffectImports: true },
      ...{ target: old.ScriptTarget.ES2022, types: ['node'], esModuleInterop: true, noEmit: true },
    };
    const host = old.createCompilerHost(options);
    const { getSourceFile } = host;
    host.getCurrentDirectory = () => project;
    host.getSourceFile = (path, how, ...rest) => {
      const { impliedNodeFormat } = how as import('typescript-5').CreateSourceFileOptions;
      const id = `${path} ${impliedNodeFormat}`;
      if (!parsed.has(id)) parsed.set(id, getSourceFile(path, how, ...rest));
      return parsed.get(id);
    };
    const names = FILES.map((name) => join(project, name));
    const program = old.createProgram(names, options, host);
    // Other people's declarations are theirs.
    const ours = program
      .getSourceFiles()
      .filter(({ fileName }) => !/node_modules\/(?!@stevedore\/)/.test(fileName));
    const found = [
      ...program.getOptionsDiagnostics(),
      ...program.getGlobalDiagnostics(),
      ...ours.flatMap((file) => program.getSyntacticDiagnostics(file)),
      ...ours.flatMap((file) => program.getSemanticDiagnostics(file)),
    ];
    const pair = `${old.ModuleKind[module]} ${old.ModuleResolutionKind[moduleResolution]}`;
    expect(old.formatDiagnostics(found, host), pair).toBe('');
    expect(ours.length, pair).toBeGreaterThan(FILES.length + 10);
    pairs.push(pair);
  }
  expect(pairs).toContain('CommonJS Node10');
  expect(pairs).toContain('NodeNext NodeNext');
  expect(pairs.length).toBeGreaterThan(20);
}, 300_000);

/** All that it accepts, but for `classic`, which finds no package at all. */
function pairsOfOld() {
  const { ModuleKind, ModuleResolutionKind: Resolution } = old;
  const isNumber = (value: unknown) => typeof value === 'number';
  const modules = [...new Set(Object.values(ModuleKind).filter(isNumber))];
  const resolutions = [...new Set(Object.values(Resolution).filter(isNumber))];
  return modules
    .flatMap((module) => resolutions.map((resolution) => [module, resolution] as const))
    .filter(([module, moduleResolution]) => {
      const options = { module, moduleResolution, noLib: true, types: [] };
      const isKnown = old.createProgram([], options).getOptionsDiagnostics().length === 0;
      return isKnown && moduleResolution !== Resolution.Classic;
    });
}

/** Each resolution with the modules that go with it. */
const ofNode = ['node16', 'node18', 'node20', 'nodenext'];
const PAIRS: Readonly<Record<string, readonly string[]>> = {
  node16: ofNode,
  nodenext: ofNode,
  bundler: ['commonjs', 'es6', 'es2015', 'es2020', 'es2022', 'esnext', 'preserve'],
};

test('TypeScript 7, every pair of module and moduleResolution, with the declarations of others', () => {
  const modules = new Set(Object.values(PAIRS).flat());
  expect(wordsFor('--moduleResolution')).toEqual(new Set(Object.keys(PAIRS)));
  expect(wordsFor('--module')).toEqual(modules);
  for (const [resolution, modules] of Object.entries(PAIRS)) {
    for (const module of modules) {
      const how = ['--module', module, '--moduleResolution', resolution];
      expect(compiled([...how, ...FILES]), `${module} ${resolution}`).toBe('');
    }
  }
}, 300_000);

function compiled(words: readonly string[]): string {
  const always = ['--noEmit', '--strict', '--target', 'es2022', '--types', 'node'];
  const how = { cwd: project, encoding: 'utf8', stdio: 'pipe' } as const;
  try {
    return execFileSync(process.execPath, [TSC, ...always, ...words], how);
  } catch (error) {
    return (error as { readonly stdout: string }).stdout;
  }
}

/** What it lists when it is given another word. */
function wordsFor(option: string): ReadonlySet<string> {
  const [, list = ''] = compiled([option, 'none-of-them']).split('must be:');
  return new Set([...list.matchAll(/'([\w-]+)'/g)].map(([, word]) => word!));
}
