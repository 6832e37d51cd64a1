import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { execFileSync } from '../support/child-process.js';
import { archives } from '../support/packed.js';
import { ROOT } from '../support/paths.js';
import { ofSuite, temporaryFolder } from '../support/temporary.js';

/**
 * What each published entry shows of itself, in docs/api: a change of it is a change of a file. The
 * names that it exports, each with its declaration, without comments and without what only other
 * declarations name.
 */

/** Top-level declarations of a module by name. */
function declarationsIn(text: string): Map<string, string> {
  const bare = text.replace(/[ \t]*\/\*\*[\s\S]*?\*\/\n?/g, '').replace(/^\s*\n/gm, '');
  const found = new Map<string, string>();
  const begins =
    /^(?:export )?(?:declare )?(?:abstract )?(?:function|class|const|let|interface|type|namespace)\s+(\w+)/;
  for (const part of bare.split(/\n(?=[a-z])/)) {
    const name = begins.exec(part)?.[1];
    if (name === undefined) continue;
    const own = part.replace(/^(?:export )?(?:declare )?/, '').trimEnd();
    const before = found.get(name);
    found.set(name, before === undefined ? own : `${before}\n${own}`);
  }
  return found;
}

/** `own as shown`, of `export { … }` and `import { … }`. */
function pairsIn(list: string): [own: string, shown: string][] {
  return list
    .split(',')
    .map((each) => each.trim().replace(/^type /, ''))
    .filter((each) => each !== '')
    .map((each) => each.split(' as '))
    .map(([own = '', shown = own]) => [own, shown]);
}

/** The exports of the file, by the name that users import. */
function exportsOf(folder: string, file: string): Map<string, string> {
  const text = readFileSync(join(folder, file), 'utf8');
  const declared = declarationsIn(text);
  for (const [, list = '', from = ''] of text.matchAll(
    /^import \{([^}]*)\} from "\.\/(.+?)\.js";/gm,
  )) {
    const theirs = exportsOf(folder, `${from}.d.ts`);
    for (const [own, shown] of pairsIn(list)) declared.set(shown, theirs.get(own)!);
  }
  const all = new Map<string, string>();
  for (const [, name = ''] of text.matchAll(
    /^export (?:declare )?(?:abstract )?(?:function|class|const|interface|type) (\w+)/gm,
  )) {
    all.set(name, declared.get(name)!);
  }
  for (const [, list = '', , from] of text.matchAll(
    /^export \{([^}]*)\}( from "\.\/(.+?)\.js")?;/gm,
  )) {
    const theirs = from === undefined ? declared : exportsOf(folder, `${from}.d.ts`);
    for (const [own, shown] of pairsIn(list)) all.set(shown, theirs.get(own)!);
  }
  return all;
}

const entries = Object.entries(archives).flatMap(([name, archive]) => {
  const folder = temporaryFolder(ofSuite);
  execFileSync('tar', ['-xzf', archive, '-C', folder]);
  const dist = join(folder, 'package/dist');
  const { exports } = JSON.parse(readFileSync(join(folder, 'package/package.json'), 'utf8')) as {
    exports: Record<string, unknown>;
  };
  return Object.keys(exports).map((path) => {
    const entry = path === '.' ? 'index' : path.slice(2);
    const short = name.replace('@stevedore/', '');
    return { name: entry === 'index' ? short : `${short}-${entry.replace('/', '-')}`, dist, entry };
  });
});

test.each(entries)('$name shows what docs/api says', async ({ name, dist, entry }) => {
  const shown = exportsOf(dist, `${entry}.d.ts`);
  const texts = [...shown]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([own, text]) => {
      expect(text, own).toBeDefined();
      return text;
    });
  const report = `// Made by the test packages/api; run it with -u.\n\n${texts.join('\n\n')}\n`;
  await expect(report).toMatchFileSnapshot(join(ROOT, 'docs/api', `${name}.txt`));
});

test('docs/api has no other pages', () => {
  const names = entries.map(({ name }) => `${name}.txt`);
  expect(readdirSync(join(ROOT, 'docs/api')).sort()).toEqual(names.sort());
});
