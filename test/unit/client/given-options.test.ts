import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { connectOptions } from '@stevedore/client/connect/internal';
import { storeOptions } from '@stevedore/client/internal';
import { type OptionSpec, type OptionTable, typedDefault } from '@stevedore/options';
import { expect, test } from 'vitest';
import { ROOT } from '../../support/paths.js';

const FILE = join(ROOT, 'packages/client/src/given-options.ts');
const UNITS: Readonly<Record<string, string>> = {
  size: 'Bytes, or text like `64MiB`.',
  duration: 'Milliseconds, or text like `60s`.',
};

function typeOf({ kind, choices }: OptionSpec): string {
  if (choices)
    return choices.map((each) => (typeof each === 'number' ? each : `'${each}'`)).join(' | ');
  const types = { text: 'string', list: 'readonly string[]', boolean: 'boolean' };
  if (kind === 'size') return 'Size';
  if (kind === 'duration') return 'Duration';
  return types[kind as keyof typeof types] ?? 'number';
}

function boundsOf({ kind, minimum, maximum }: OptionSpec): string {
  const shown = (value: number) => typedDefault({ kind, default: value, help: '' });
  if (kind === 'port' || (minimum ?? 0) <= 0) {
    return kind === 'port' || maximum === undefined ? '' : `At most ${shown(maximum)}.`;
  }
  return maximum === undefined
    ? `At least ${shown(minimum!)}.`
    : `From ${shown(minimum!)} to ${shown(maximum)}.`;
}

/** Words in lines of at most 100 characters. */
function comment(text: string): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    if (`   * ${lines.at(-1)} ${word}`.length > 100) lines.push(word);
    else lines[lines.length - 1] = `${lines.at(-1)} ${word}`.trim();
  }
  if (lines.length === 1 && `  /** ${lines[0]} */`.length <= 100) return `  /** ${lines[0]} */`;
  return ['  /**', ...lines.map((line) => `   * ${line}`), '   */'].join('\n');
}

function interfaceOf(name: string, table: OptionTable): string {
  const members = Object.entries(table).map(([option, spec]) => {
    const sentence = `${spec.help.charAt(0).toUpperCase()}${spec.help.slice(1)}.`;
    const usual = `Default: ${typedDefault(spec)}.`;
    const parts = [sentence, usual, boundsOf(spec), UNITS[spec.kind] ?? ''];
    const text = comment(parts.filter((part) => part !== '').join(' '));
    return `${text}\n  readonly ${option}?: ${typeOf(spec)};`;
  });
  return `export interface ${name} {\n${members.join('\n')}\n}\n`;
}

test('the types of options have the names, defaults, units and bounds of their tables', async () => {
  const [head = ''] = readFileSync(FILE, 'utf8').split('export interface');
  const expected = [
    head,
    interfaceOf('OpenOptions', storeOptions),
    '\n/** What `connect()` takes. */\n',
    interfaceOf('ConnectOptions', connectOptions),
  ].join('');
  await expect(expected, 'run this test with -u').toMatchFileSnapshot(FILE);
});
