import { lineChart } from '../harness/line-chart.js';
import { commandOf, type PartRecord, type Records } from '../harness/records.js';
import type { Claim, Figure, Paper } from './claim.js';
import { clientMerging } from './client-merging.js';
import { dataNode } from './data-node.js';
import { tradeOff } from './trade-off.js';

/**
 * The page REPRODUCING.md of the documents and its charts, from the claims of the papers and the records of runs. Throws
 * where a claim's run lacks its figure, or it does not hold and nothing says why.
 */

const PAPERS: readonly Paper[] = [clientMerging, dataNode, tradeOff];

const INTRODUCTION = `# Reproducing the papers

What became of each claim, equation, algorithm, table and figure of the three papers that Stevedore implements. This page is generated
(\`npm run bench -- --update-docs\`) from the runs in \`bench/results\` and the claims in \`bench/src/claims\`; a test compares them.

| verdict | means |
| --- | --- |
| reproduced | measured on this machine, or held by the test that is named |
| reproduced on the model only | measured with modelled disks, processors or wires |
| **refuted** | measured, and it does not hold here; the reason follows |
| not attempted | the reason follows |
| not measured yet | no run of this part is kept |

Runs without \`--quick\` take hours: see [the benchmarks](../bench/README.md). A test is run by \`node test/dist/tools/run.js TEST\` after a build.`;

export interface Page {
  readonly text: string;
  /** SVG by the path below `docs`. */
  readonly charts: Readonly<Record<string, string>>;
}

export function reproducing(records: Records): Page {
  const charts: Record<string, string> = {};
  const sections = PAPERS.map(({ title, claims, charts: drawn }) => {
    const rows = claims.map((claim) => rowOf(claim, records));
    const head = ['Claim', 'The paper', 'Ours', 'Verdict', 'Test or run'];
    const images = drawn.map(({ name, benchmark, series, ...about }) => {
      const figures = figuresOf(records, benchmark);
      const lines = series.map((each) => ({
        ...each,
        values: each.values.map((value) =>
          typeof value === 'string' ? (figures.get(value) ?? null) : value,
        ),
      }));
      const path = `charts/${name}.svg`;
      charts[path] = lineChart({ ...about, series: lines });
      return `![${about.title}](${path})`;
    });
    const lines = [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
    return [`## ${title}`, lines.join('\n'), ...images].join('\n\n');
  });
  return { text: `${[INTRODUCTION, ...sections].join('\n\n')}\n`, charts };
}

/** Of all parts of a benchmark. */
function figuresOf(records: Records, benchmark: string): ReadonlyMap<string, number> {
  const parts = Object.values(records.get(benchmark) ?? {});
  return new Map(parts.flatMap(({ figures }) => Object.entries(figures)));
}

function rowOf(claim: Claim, records: Records): string[] {
  const { what, paper, test, measured, skipped, ours = '' } = claim;
  if (skipped !== undefined) return [what, paper, ours, `not attempted: ${skipped}`, ''];
  if (!measured) return [what, paper, ours, 'reproduced', `\`test/${test}\``];
  const [benchmark = '', part = ''] = measured.run.split('/');
  const record: PartRecord | undefined = records.get(benchmark)?.[part];
  if (!record || Object.keys(record.figures).length === 0) {
    return [what, paper, '', 'not measured yet', `\`${measured.run}\``];
  }
  const all: Figure['all'] = (ids) => {
    const values = ids.flatMap((id) => record.figures[id] ?? []);
    if (values.length === 0) throw new Error(`${what}: ${measured.run} has no figure ${ids[0]}`);
    return values;
  };
  const figure: Figure = Object.assign((id: string) => all([id])[0]!, { all });
  const run = `\`${commandOf(benchmark, part, record)}\`, ${record.date}`;
  return [what, paper, measured.ours(figure), verdict(what, measured, figure), run];
}

function verdict(
  what: string,
  { holds, isModel = false, why }: NonNullable<Claim['measured']>,
  figure: Figure,
): string {
  if (holds(figure)) return isModel ? 'reproduced on the model only' : 'reproduced';
  if (why === undefined) throw new Error(`${what} does not hold, and nothing says why`);
  return `**refuted**: ${why}`;
}
