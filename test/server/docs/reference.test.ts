import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { STORE_CHANNELS } from '@stevedore/client';
import { connectOptions } from '@stevedore/client/connect/internal';
import { storeOptions } from '@stevedore/client/internal';
import { CHANNELS, FASTDFS_ERRORS } from '@stevedore/fastdfs';
import { problemBody, problemCodes } from '@stevedore/middleware/core';
import { startStorage } from '@stevedore/node';
import { flagName, type OptionSpec, type OptionTable, typedDefault } from '@stevedore/options';
import { STORE_ERRORS } from '@stevedore/staging/errors';
import { startTracker } from '@stevedore/tracker';
import { describe, expect, onTestFinished, test } from 'vitest';
import { buildApp } from '../../../gateway/dist/app.js';
import { nodeOptions, storageOptions, trackerOptions } from '../../../gateway/dist/cli/options.js';
import { storageMetrics, trackerMetrics } from '../../../gateway/dist/observe/node-metrics.js';
import { gatewayOptions } from '../../../gateway/dist/options.js';
import { MemoryStore } from '../../support/gateway/memory-store.js';
import { ROOT } from '../../support/paths.js';
import { SOURCES, textOf } from '../../support/sources.js';
import { temporaryFolder } from '../../support/temporary.js';

const REFERENCE_FILE = join(ROOT, 'docs/REFERENCE.md');
const REFERENCE = readFileSync(REFERENCE_FILE, 'utf8');

function rows(): string[][] {
  return REFERENCE.split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim().replaceAll('`', '')),
    );
}

/** The document with these rows in the table that has this header. */
function withRows(document: string, header: string, lines: readonly string[]): string {
  const head = document.indexOf(`${header}\n`);
  if (head < 0) throw new Error(`there is no table ${header}`);
  const begin = document.indexOf('\n', head + header.length + 1) + 1;
  const end = document.indexOf('\n\n', begin);
  return `${document.slice(0, begin)}${lines.join('\n')}${end < 0 ? '\n' : document.slice(end)}`;
}

function optionRow(shown: string, name: string, spec: OptionSpec): string {
  const word = typedDefault(spec);
  const isWord = spec.shown !== undefined || /^(none|on|off|\d+)$/.test(word);
  const inSdk = Object.hasOwn(storeOptions, name)
    ? typedDefault(storeOptions[name as keyof typeof storeOptions])
    : word;
  const cells = [
    `\`${shown}\``,
    (isWord ? word : `\`${word}\``) + (inSdk !== word && shown === name ? ` (SDK: ${inSdk})` : ''),
    [
      spec.help,
      ...(spec.choices ? [`(${spec.choices.map((choice) => `\`${choice}\``).join(', ')})`] : []),
      ...(spec.see === undefined ? [] : [`([more](${spec.see}))`]),
    ].join(' '),
  ];
  return `| ${cells.join(' | ')} |`;
}

const gatewayRows = (areOfStore: boolean): string[] =>
  Object.entries(gatewayOptions)
    .filter(([name]) => Object.hasOwn(storeOptions, name) === areOfStore)
    .map(([name, spec]) => optionRow(name, name, spec));

const flagRowsOf = (table: OptionTable): string[] =>
  Object.entries(table).map(([name, spec]) => optionRow(flagName(name), name, spec));

const ownFlagRowsOf = (table: OptionTable): string[] =>
  flagRowsOf(
    Object.fromEntries(Object.entries(table).filter(([name]) => !Object.hasOwn(nodeOptions, name))),
  );

/** The labels are told by hand, at the end of the meaning. */
async function gatewayMetrics(): Promise<string[]> {
  const app = buildApp({ store: new MemoryStore() });
  onTestFinished(() => app.close());
  await app.inject('/health/live');
  const labels = new Map(
    [...REFERENCE.matchAll(/^\| `(stevedore_\w+)` \| .*( By `.*\.) \|$/gm)].map(([, name, by]) => [
      name,
      by,
    ]),
  );
  const { body } = await app.inject('/metrics');
  return [...metricsIn(body)].map(
    ([name, help]) => `| \`${name}\` | ${help}${labels.get(name) ?? ''} |`,
  );
}

async function daemonMetrics(): Promise<string[]> {
  const tracker = await startTracker({ port: 0 });
  const storage = await startStorage({
    port: 0,
    storePaths: [temporaryFolder()],
    tiers: { enabled: true, bytesPerSecond: 1e8 },
  });
  onTestFinished(async () => {
    await storage.close();
    await tracker.close();
  });
  const texts = await Promise.all([storageMetrics(storage)(), trackerMetrics(tracker)()]);
  return [...metricsIn(texts.join('\n'))]
    .filter(([name]) => !name.startsWith('stevedore_cache_'))
    .map(([name, help]) => `| \`${name}\` | ${help} |`);
}

/** What each metric means, by name. */
function metricsIn(text: string): Map<string, string> {
  return new Map(
    [...text.matchAll(/^# HELP (stevedore_\S+) (.*)$/gm)].map(([, name, help]) => [name!, help!]),
  );
}

describe('the reference', () => {
  test('lists every error code with its status and classes, and no other', () => {
    const known = new Map<string, { status: string; from: string[] }>();
    const add = (code: string, from: string, status = '') => {
      const entry = known.get(code) ?? { status, from: [] };
      entry.status ||= status;
      known.set(code, entry);
      if (from !== '' && !entry.from.includes(from)) entry.from.push(from);
    };
    for (const code of Object.keys(STORE_ERRORS)) add(code, 'SDK');
    for (const code of problemCodes()) add(code, '', String(problemBody(code, '').status));
    for (const code of Object.keys(FASTDFS_ERRORS)) add(code, 'client');
    for (const code of daemonErrorCodes()) add(code, 'daemon');
    for (const code of unionCodes('MapErrorCode')) add(code, 'map');
    const listed = rows()
      .filter(
        (cells) => cells.length === 4 && /^[A-Za-z, ]*$/.test(cells[2]!) && /^\d*$/.test(cells[1]!),
      )
      .map(([code, status, from]) => `${code} ${status} ${from}`);
    const expected = [...known].map(
      ([code, { status, from }]) => `${code} ${status} ${from.join(', ')}`,
    );
    expect(listed).toEqual(expected.sort());
  });

  test('says which errors of the store can be retried', () => {
    const isAskedAgain = (code: string): boolean =>
      problemCodes().some(
        (known) => known === code && [429, 503, 507].includes(problemBody(known, '').status),
      );
    const codes = Object.entries(STORE_ERRORS).filter(([code]) => code !== 'closed');
    for (const [code, retryable] of codes)
      expect([code, isAskedAgain(code)]).toEqual([code, retryable]);
  });

  test('lists every diagnostics channel, and no other', () => {
    const listed = rows()
      .filter((cells) => cells.length === 2 && cells[0]!.startsWith('stevedore.'))
      .map(([name]) => name);
    const known = [...Object.values(STORE_CHANNELS), ...Object.values(CHANNELS), 'stevedore.merge'];
    expect(listed.sort()).toEqual(known.sort());
  });

  // `node test/dist/tools/run.js docs/reference -u` writes them anew.
  test('has the options and metrics as the code declares them', async () => {
    const tables: [header: string, rows: string[]][] = [
      ['| option of the gateway and of `open()` | default | meaning |', gatewayRows(true)],
      ['| option of the gateway alone | default | meaning |', gatewayRows(false)],
      [
        '| option of `connect()` | default | meaning |',
        Object.entries(connectOptions).map(
          ([name, spec]) => `| \`${name}\` | \`${typedDefault(spec)}\` | ${spec.help} |`,
        ),
      ],
      ['| metric of the gateway | meaning |', await gatewayMetrics()],
      ['| flag of `stevedore storage` | default | meaning |', ownFlagRowsOf(storageOptions)],
      ['| metric of trackers and storages | meaning |', await daemonMetrics()],
      ['| flag of `stevedore tracker` | default | meaning |', ownFlagRowsOf(trackerOptions)],
      ['| flag of both | default | meaning |', flagRowsOf(nodeOptions)],
    ];
    let document = REFERENCE;
    for (const [header, lines] of tables) document = withRows(document, header, lines);
    await expect(document).toMatchFileSnapshot(REFERENCE_FILE);
  });
});

/** Of a type that lists them. */
function unionCodes(type: string): string[] {
  const text = SOURCES.map(textOf).join('\n');
  const [, union = ''] = new RegExp(`^(?:export )?type ${type} =([^;]*);`, 'm').exec(text) ?? [];
  return [...union.matchAll(/'(\w+)'/g)].map(([, code]) => code!);
}

/** What trackers and storages give their errors, where it is not the code of the system. */
function daemonErrorCodes(): string[] {
  const packages = /^packages\/(?:node|options|protocol|storage|tiering|tracker|wire)\//;
  const text = SOURCES.filter((path) => packages.test(path))
    .map(textOf)
    .join('\n');
  const given =
    /(?:readonly code = |codeOf\(\w+\) \?\? |new (?:Connection|Start|EmbeddedNode)Error\(\s*)'([a-z_]+)'/g;
  return [
    ...[...text.matchAll(given)].map(([, code]) => code!),
    ...unionCodes('ConnectionErrorCode'),
  ];
}
