import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parser } from '@prometheus-io/lezer-promql';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { Running } from '../../support/cli/run.js';
import { ROOT } from '../../support/paths.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';

/** The dashboard and the alert rules ask for what the programs show. */

const FOLDER = join(ROOT, 'examples/monitoring');
/** What Prometheus itself adds to a scrape. */
const OF_PROMETHEUS = ['up'];
const BUILT_IN_LABELS = ['instance', 'job', 'le'];

interface Selector {
  readonly metric: string;
  readonly labels: readonly string[];
}

/** Names and labels of the series that an expression of PromQL selects. Throws where it is none. */
function selectorsOf(expression: string): Selector[] {
  // Grafana's own, as it would put them in.
  const text = expression.replaceAll('$__rate_interval', '5m').replace(/\$\w+/g, '.*');
  const found: { metric: string; labels: string[] }[] = [];
  parser.parse(text).iterate({
    enter({ type, from, to }) {
      if (type.isError) throw new Error(`not PromQL at ${from}: ${text}`);
      const word = text.slice(from, to);
      if (type.name === 'VectorSelector') found.push({ metric: '', labels: [] });
      if (type.name === 'Identifier' && found.at(-1)?.metric === '') found.at(-1)!.metric = word;
      if (type.name === 'LabelName' && text[to] !== ',' && text[to] !== ')') {
        found.at(-1)?.labels.push(word);
      }
    },
  });
  return found;
}

interface Rule {
  readonly alert: string;
  readonly expr: string;
}

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

const alerts = parse(readFileSync(join(FOLDER, 'alerts.yml'), 'utf8')) as {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
};
const dashboard = JSON.parse(readFileSync(join(FOLDER, 'dashboard.json'), 'utf8')) as {
  readonly panels: readonly Panel[];
};
const expressions = [
  ...alerts.groups.flatMap(({ rules }) => rules.map(({ alert, expr }) => [alert, expr] as const)),
  ...dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => [title, expr] as const),
  ),
];
/** The text of /metrics of a gateway, a storage and a tracker that have served something. */
const shown = await figures();

async function figures(): Promise<string> {
  const atTheEnd = ofSuite;
  const tracker = new Running(['tracker', '--port', '0', '--metrics', '0'], { atTheEnd });
  const trackers = ['--trackers', await tracker.ready()];
  const path = temporaryFolder(ofSuite);
  const more = ['--metadata-tier', '--bandwidth', '100MiB', '--store-paths', path];
  const storage = new Running(['storage', '--port', '0', '--metrics', '0', ...more, ...trackers], {
    atTheEnd,
  });
  await storage.ready();
  const directory = ['--directory', temporaryFolder(ofSuite)];
  const gateway = new Running(['gateway', '--port', '0', ...directory, ...trackers], { atTheEnd });
  const url = (await gateway.ready()).replace(/^(?!http)/, 'http://');
  const posted = await fetch(`${url}/files`, { method: 'POST', body: 'x' });
  await fetch(`${url}/files/${((await posted.json()) as { key: string }).key}`);
  const urls = [tracker, storage].map(({ stdout }) => /"metrics":"([^"]+)"/.exec(stdout)![1]!);
  const texts = [`${url}/metrics`, ...urls].map(async (each) => (await fetch(each)).text());
  return (await Promise.all(texts)).join('');
}

test('there are rules and panels', () => {
  expect(alerts.groups.length).toBe(2);
  expect(expressions.length).toBeGreaterThan(50);
});

test.each(expressions)('%s: %s', (_title, expression) => {
  const selectors = selectorsOf(expression);
  for (const { metric, labels } of selectors) {
    if (OF_PROMETHEUS.includes(metric)) continue;
    const name = metric.replace(/_(count|bucket|sum)$/, '');
    const type = new RegExp(`^# TYPE ${name} (\\w+)$`, 'm').exec(shown)?.[1];
    expect(type, metric).toBeDefined();
    expect(name === metric, `${metric}: _count and _bucket are of histograms`).toBe(
      type !== 'histogram',
    );
    const series = shown.split('\n').filter((line) => line.startsWith(`${metric}{`));
    for (const label of labels.filter((each) => !BUILT_IN_LABELS.includes(each))) {
      // A counter with labels has no series before it counts.
      if (series.length > 0) expect(series[0], metric).toContain(`${label}="`);
    }
  }
});
