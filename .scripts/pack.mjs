/**
 * Packs what is published: five packages, each with what it needs of this workspace bundled into
 * it. `node .scripts/pack.mjs [FOLDER]` leaves the archives of this version, and no others, in the
 * folder (dist/packages).
 *
 * An archive depends on what its modules import from outside, at the versions of the workspace.
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { dts } from 'rolldown-plugin-dts';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * `asked`: loaded when a feature is used, and left to whoever uses it. `programs`: modules of the
 * workspace that are started by path, beside the package's exports.
 */
const PUBLIC = [
  { folder: 'packages/client', asked: ['koffi', 'postgres'] },
  { folder: 'packages/middleware' },
  { folder: 'packages/pictures' },
  { folder: 'packages/browser' },
  { folder: 'gateway', programs: ['main'], optional: ['koffi'] },
];

/**
 * Bundled although they are others': the server of resumable uploads would install two clients of
 * redis, which nothing here uses. Their licence goes with them.
 */
export const BUNDLED = ['@tus/server', '@tus/utils'];

const isBundled = (id) => BUNDLED.includes(id) || id.startsWith('@stevedore/');
const isOutside = (id) => /^[@a-z]/.test(id) && !id.startsWith('node:') && !isBundled(id);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = resolve(process.argv[2] ?? join(root, 'dist', 'packages'));
  console.log(`packed ${(await pack(folder)).length} packages into ${folder}`);
}

/** Resolves with the paths of the archives. */
export async function pack(folder) {
  mkdirSync(folder, { recursive: true });
  for (const archive of archivesIn(folder)) rmSync(archive);
  const scratch = mkdtempSync(join(tmpdir(), 'stevedore-pack-'));
  for (const each of PUBLIC) {
    const built = join(scratch, basename(each.folder));
    await build(each, built);
    run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], built);
  }
  rmSync(scratch, { recursive: true });
  return archivesIn(folder);
}

async function build({ folder, asked = [], optional = [], programs = [] }, target) {
  const source = join(root, folder);
  const { devDependencies: _, ...manifest } = readJson(join(source, 'package.json'));
  const dist = join(target, 'dist');
  // The gateway and the middleware bundle what they need of them.
  for (const path in manifest.exports) if (/internal$/.test(path)) delete manifest.exports[path];
  const inputs = Object.entries(manifest.exports).map(([path, { default: file }]) => [
    path === '.' ? 'index' : path.slice(2),
    join(source, file),
  ]);
  for (const name of programs) inputs.push([name, join(source, `dist/${name}.js`)]);
  const modules = await bundle(source, inputs, dist, [startedByPath()]);
  const typed = inputs
    .filter(([name]) => !programs.includes(name))
    .map(([name, file]) => [name, file.replace(/js$/, 'd.ts')]);
  const declarations = await bundle(source, typed, dist, [
    dts({ dtsOnly: true, generator: 'oxc', tsconfig: false }),
  ]);
  for (const { fileName, code } of declarations) {
    writeFileSync(
      join(dist, fileName.replace(/ts$/, 'cts')),
      code.replace(/((?:from|import) "\.\/.+\.)js"/g, '$1cjs"'),
    );
  }
  for (const [name] of typed) {
    const { exports } = modules.find(({ fileName }) => fileName === `${name}.js`);
    writeFileSync(join(dist, `${name}.cjs`), required(name, exports));
    manifest.exports[name === 'index' ? '.' : `./${name}`] = {
      import: { types: `./dist/${name}.d.ts`, default: `./dist/${name}.js` },
      require: { types: `./dist/${name}.d.cts`, default: `./dist/${name}.cjs` },
    };
  }
  Object.assign(manifest, withoutExports(typed.map(([name]) => name)));
  needs(manifest, modules, declarations, { asked, optional });
  if (folder === 'gateway') {
    for (const part of ['bin', 'console', 'openapi.json'])
      cpSync(join(source, part), join(target, part), { recursive: true });
    const isModule = (path) => !/\.(?:map|d\.ts|tsbuildinfo)$/.test(path);
    const library = join(target, 'console/lib');
    cpSync(join(root, 'packages/browser/dist'), library, { recursive: true, filter: isModule });
    manifest.imports = { '#browser': './console/lib/index.js' };
    // What `stevedore init` writes.
    const { TEMPLATE_SOURCES } = await import('../gateway/dist/cli/init.js');
    for (const path of TEMPLATE_SOURCES) cpSync(join(root, path), join(target, 'templates', path));
  }
  if (modules.some(({ moduleIds }) => moduleIds.some((id) => id.includes('@tus/')))) {
    writeFileSync(join(dist, 'LICENSES.txt'), licence());
  }
  manifest.files = ['bin', 'console', 'openapi.json', 'templates', 'dist', '*.md'].filter((each) =>
    manifest.files.includes(each),
  );
  writeFileSync(join(target, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);
  cpSync(join(root, 'LICENSE'), join(target, 'LICENSE'));
  for (const page of readdirSync(source).filter((name) => name.endsWith('.md'))) {
    cpSync(join(source, page), join(target, page));
  }
}

async function bundle(cwd, inputs, dir, plugins) {
  const bundled = await rolldown({
    cwd,
    input: Object.fromEntries(inputs),
    external: (id) => id.startsWith('node:') || isOutside(id),
    platform: 'node',
    // No module here does anything when it is loaded.
    treeshake: { moduleSideEffects: false },
    plugins,
    onwarn(warning) {
      throw new Error(`cannot bundle ${cwd}: ${warning.message}`);
    },
  });
  const { output } = await bundled.write({
    dir,
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
  });
  return output.filter(({ type }) => type === 'chunk');
}

/** What `require()` loads: the same module under its names, which tools read from the text. */
function required(name, exports) {
  const lines = [
    "Object.defineProperty(exports, '__esModule', { value: true });",
    `const all = require('./${name}.js');`,
    ...exports.map((each) => `exports.${each} = all.${each};`),
  ];
  return `${lines.join('\n')}\n`;
}

/** Where compilers look that know no exports (`moduleResolution` node10). */
function withoutExports(names) {
  const types = Object.fromEntries(names.map((name) => [name, [`./dist/${name}.d.ts`]]));
  const { index, ...others } = types;
  const typesVersions = Object.keys(others).length > 0 ? { '*': others } : undefined;
  return index ? { main: './dist/index.cjs', types: index[0], typesVersions } : { typesVersions };
}

/** Modules that are started as workers or processes become files beside the module that names them. */
function startedByPath() {
  const named = /new URL\('\.\/([\w-]+)\.js', import\.meta\.url\)/g;
  return {
    name: 'started-by-path',
    transform(code, id) {
      for (const [, name] of code.matchAll(named)) {
        const file = join(dirname(id), `${name}.js`);
        this.emitFile({ type: 'chunk', id: file, fileName: `${name}.js` });
      }
    },
  };
}

/** What the package brings, what its user brings, and what is left to users of a feature. */
function needs(manifest, modules, declarations, { asked, optional }) {
  const versions = versionsOfWorkspace();
  const { peerDependencies: peers = {}, dependencies: own = {} } = manifest;
  const typed = packagesOf(declarations);
  const types = typed.map((name) => `@types/${name}`).filter((name) => name in versions);
  const named = [...Object.keys(own), ...packagesOf(modules), ...typed, ...types];
  const names = [...new Set(named)].filter((name) => isOutside(name) && !(name in peers)).sort();
  manifest.dependencies = {};
  for (const name of names) {
    if (!(name in versions)) throw new Error(`no package of the workspace says which ${name}`);
    if (!asked.includes(name)) manifest.dependencies[name] = versions[name];
  }
  for (const name of optional) manifest.optionalDependencies = { [name]: versions[name] };
  for (const name of asked) {
    manifest.peerDependencies = { ...manifest.peerDependencies, [name]: `^${versions[name]}` };
    manifest.peerDependenciesMeta = {
      ...manifest.peerDependenciesMeta,
      [name]: { optional: true },
    };
  }
}

/** Packages that the modules import. Of declarations, whose unused imports are gone, the text tells. */
function packagesOf(chunks) {
  const ids = chunks.flatMap(({ fileName, code, imports, dynamicImports }) =>
    fileName.endsWith('.d.ts')
      ? [...code.matchAll(/^(?:import|export)(?: .* from)? "([^"]+)";$/gm)].map(([, id]) => id)
      : [...imports, ...dynamicImports],
  );
  return ids
    .filter((id) => isOutside(id) && !chunks.some(({ fileName }) => fileName === id))
    .map((id) => /^(?:@[^/]+\/)?[^/]+/.exec(id)[0]);
}

/** Of all packages of the workspace, which agree: one lock file has them; and of what is bundled. */
function versionsOfWorkspace() {
  const folders = [
    ...readdirSync(join(root, 'packages')).map((name) => `packages/${name}`),
    'gateway',
  ];
  const manifests = [...BUNDLED.map(installed), ...folders.map((folder) => join(root, folder))].map(
    (folder) => readJson(join(folder, 'package.json')),
  );
  return Object.assign(
    {},
    ...manifests.flatMap((each) => [each.optionalDependencies, each.dependencies]),
  );
}

/** The folder of a package that the workspace has installed. */
export function installed(name) {
  const packages = join(root, 'node_modules/.pnpm');
  const folder = readdirSync(packages).find((each) =>
    each.startsWith(`${name.replace('/', '+')}@`),
  );
  return join(packages, folder, 'node_modules', name);
}

/** One text: the bundled packages are of one repository. */
function licence() {
  return `${BUNDLED.join(', ')}\n\n${readFileSync(join(installed(BUNDLED[0]), 'LICENSE'), 'utf8')}`;
}

function readJson(file) {
  return JSON.parse(readFileSync(file, 'utf8'));
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
