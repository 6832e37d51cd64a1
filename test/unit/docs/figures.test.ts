import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { reproducing } from '../../../bench/dist/claims/reproducing.js';
import { commandOf, filled, readRecords } from '../../../bench/dist/harness/records.js';
import { ROOT } from '../../support/paths.js';

const DOCUMENTS = ['docs', 'packages'].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !/node_modules|dist\//.test(name))
    .map((name) => join(folder, name)),
);
const records = await readRecords(join(ROOT, 'bench/results'));

test('figures of benchmarks in documents are what was recorded', () => {
  for (const path of DOCUMENTS) {
    const document = readFileSync(join(ROOT, path), 'utf8');
    expect(filled(document, records), `${path}: npm run bench -- --update-docs`).toBe(document);
  }
});

test('the figures of the README are those of the run that it names', () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8').replace(/\s+/g, ' ');
  const run = records.get('servers')!.stored!;
  const said =
    /takes ([\d.]+) times the uploads of a bare Node .+? filer takes ([\d.]+) times, .+? ([\d.]+) times\. Repeat/;
  const servers = ['gateway', 'seaweedfs-filer', 'seaweedfs-volume'];
  expect(said.exec(readme)?.slice(1)).toEqual(
    servers.map((name) => run.figures[`stored.${name}.c20.rate-ratio`]!.toFixed(2)),
  );
  expect(readme).toContain(`${commandOf('servers', 'stored', run)} --server `);
});

test('the page of the papers and its charts are what was recorded', () => {
  const { text, charts } = reproducing(records);
  expect(readFileSync(join(ROOT, 'docs/REPRODUCING.md'), 'utf8')).toBe(text);
  expect(
    readdirSync(join(ROOT, 'docs/charts'))
      .map((name) => `charts/${name}`)
      .sort(),
  ).toEqual(Object.keys(charts).sort());
  for (const [path, svg] of Object.entries(charts)) {
    expect(readFileSync(join(ROOT, 'docs', path), 'utf8'), path).toBe(svg);
  }
});

test('a claim is judged by its figure, and one without it is refused', () => {
  const claim = 'Fig. 6: reads, cache';
  const changed = (change: (figures: Record<string, number>) => Record<string, number>) => {
    const { model, ...parts } = records.get('data-node')!;
    const figures = change({ ...model!.figures });
    const all = new Map([...records, ['data-node', { ...parts, model: { ...model!, figures } }]]);
    return reproducing(all)
      .text.split('\n')
      .find((line) => line.startsWith(`| ${claim} `));
  };
  expect(changed((figures) => figures)).toContain('| reproduced on the model only ');
  const no = (figures: Record<string, number>) => ({ ...figures, 'read.cache.16.gain': 0.9 });
  expect(changed(no)).toContain('**refuted**');
  expect(changed(() => ({}))).toContain('| not measured yet ');
  expect(() => changed(() => ({ other: 1 }))).toThrow('has no figure');
});

test('each record says of which version it is, of which day and machine', () => {
  const all = [...records.values()].flatMap((parts) => Object.values(parts));
  expect(all.length).toBeGreaterThan(0);
  for (const { stevedore, date, scale, machine, tables } of all) {
    expect(stevedore).toMatch(/^\d+\.\d+\.\d+$/);
    expect(date).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    expect(['full', 'quick']).toContain(scale);
    expect(machine).toContain('Node ');
    for (const table of Object.values(tables)) expect(table).toMatch(/^\| /);
  }
});

const RECORDED = {
  ...{ tables: { upload: '| a |\n| --- |\n| 1 |' }, charts: {}, figures: {} },
  ...{ stevedore: '0.1.0', date: '2026-11-25', scale: 'quick', machine: '2 × X', note: 'Shared.' },
};

test('a marker is filled with its table, version, date and machine, and only once', () => {
  const known = new Map([['servers', { all: RECORDED }]]);
  const marker = '<!-- bench:servers/upload -->\n<!-- /bench -->';
  const once = filled(`before\n${marker}\nafter`, known);
  expect(once).toContain(
    '| 1 |\n\nStevedore 0.1.0, 2026-11-25, `npm run bench -- servers --parts all --quick`; 2 × X. Shared.\n<!-- /bench -->\nafter',
  );
  expect(filled(once, known)).toBe(once);
  expect(() => filled('<!-- bench:servers/none --><!-- /bench -->', known)).toThrow(
    'bench:servers/none was never recorded',
  );
});
