import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { option } from '@stevedore/options';
import type { Command } from 'commander';
import { PACKAGE, version } from '../program.js';
import { UsageError } from './errors.js';
import { define, flags } from './options.js';

/**
 * `stevedore init`: writes a small app. Its text is that of an example or a guide of this
 * repository, which the packed gateway has a copy of.
 */

interface Template {
  /** An example, which becomes server.js, or a guide, of which each TypeScript program becomes a file. */
  readonly source: string;
  readonly start: string;
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  /** Not for version control. */
  readonly ignored: readonly string[];
}

const SERVER = {
  start: 'npm start',
  scripts: { start: 'node server.js' },
  ignored: ['node_modules', 'stevedore-data'],
};

const TEMPLATES: Readonly<Record<string, Template>> = {
  express: {
    ...SERVER,
    source: 'examples/src/middleware/express.ts',
    dependencies: { express: '^5.0.0' },
  },
  fastify: {
    ...SERVER,
    source: 'examples/src/middleware/fastify.ts',
    dependencies: { fastify: '^5.0.0' },
  },
  next: {
    source: 'docs/guides/apps.md',
    start: 'npm run dev',
    scripts: { dev: 'next dev', build: 'next build', start: 'next start' },
    dependencies: { next: '^16.0.0', react: '^19.0.0', 'react-dom': '^19.0.0' },
    devDependencies: { '@types/node': '^20.19.0', '@types/react': '^19.0.0', typescript: '^5.9.0' },
    ignored: ['node_modules', 'data', '.next', 'next-env.d.ts'],
  },
};

/** What the archive of the gateway has below `templates/`, at the same paths. */
export const TEMPLATE_SOURCES: readonly string[] = Object.values(TEMPLATES).map(
  ({ source }) => source,
);

const initOptions = flags({
  packages: option.text(
    '',
    'folder with archives of `npm run packages` to depend on; none: the npm registry',
  ),
});

const HELP = `
Frameworks: ${Object.keys(TEMPLATES).join(', ')}. The folder (default: this one) must be empty.

Examples:
  stevedore init express photos
  stevedore init next photos --packages ../stevedore/dist/packages`;

export function configure(command: Command): void {
  define(command, initOptions, HELP, async ({ packages }, framework: string, into?: string) => {
    const folder = into ?? '.';
    const template = Object.hasOwn(TEMPLATES, framework) ? TEMPLATES[framework] : undefined;
    if (!template) {
      throw new UsageError(`"${framework}" is none of ${Object.keys(TEMPLATES).join(', ')}`);
    }
    const files = { ...(await programsOf(template)), ...(await manifestOf(template, packages)) };
    await mkdir(folder, { recursive: true });
    if ((await readdir(folder)).length > 0) throw new UsageError(`${folder} is not empty`);
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), text, { flag: 'wx' });
    }
    const enter = folder === '.' ? '' : `cd ${folder} && `;
    process.stdout.write(
      `${Object.keys(files).sort().join('\n')}\n\nNext:\n  ${enter}npm install\n  ${template.start}\n`,
    );
  });
}

/** What people run it by in this repository, in its first lines. */
const OWN_HEAD = /^\/\/ Run: .*$/m;
const PROGRAM = /^```ts\n\/\/ (\S+)\n(.+?)^```$/gms;

async function programsOf({ source, start }: Template): Promise<Record<string, string>> {
  const packed = new URL(`templates/${source}`, PACKAGE);
  const text = await readFile(
    existsSync(packed) ? packed : new URL(`../${source}`, PACKAGE),
    'utf8',
  );
  if (!source.endsWith('.md')) return { 'server.js': text.replace(OWN_HEAD, `// Run: ${start}`) };
  return Object.fromEntries(
    [...text.matchAll(PROGRAM)].map(([, path, program]) => [path, program]),
  );
}

async function manifestOf(
  { scripts, dependencies, devDependencies, ignored }: Template,
  packages: string,
): Promise<Record<string, string>> {
  const archives = packages === '' ? [] : await readdir(packages);
  const ours = ['client', 'middleware'].map((name) => {
    if (packages === '') return [`@stevedore/${name}`, version()];
    const archive = archives.find((each) =>
      /^\d.*\.tgz$/.test(each.split(`stevedore-${name}-`)[1] ?? ''),
    );
    if (archive === undefined)
      throw new UsageError(`${packages} has no archive of @stevedore/${name}`);
    return [`@stevedore/${name}`, `file:${resolve(packages, archive)}`];
  });
  const manifest = {
    name: 'photos',
    private: true,
    type: 'module',
    scripts,
    dependencies: { ...Object.fromEntries(ours), ...dependencies },
    ...(devDependencies ? { devDependencies } : {}),
  };
  return {
    'package.json': `${JSON.stringify(manifest, undefined, 2)}\n`,
    '.gitignore': `${ignored.join('\n')}\n`,
  };
}
