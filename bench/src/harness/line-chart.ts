/**
 * Line charts as SVG text, readable without colours: every series has a marker and a dash of its own,
 * and its name beside the chart. The x axis has one place per label; the y axis begins at zero. Pure.
 */

export interface LineChart {
  readonly title: string;
  readonly xTitle: string;
  readonly yTitle: string;
  readonly labels: readonly string[];
  /** Values are one per label; null leaves a gap. */
  readonly series: readonly {
    readonly name: string;
    readonly values: readonly (number | null)[];
  }[];
}

const SIZE = { width: 940, height: 420 };
const PLOT = { left: 76, top: 52, right: 590, bottom: 356 };
const TICKS = 5;
const COLOURS = [
  '#1b6ca8',
  '#c8553d',
  '#3a7d44',
  '#7b4fa3',
  '#8a6d1d',
  '#4d4d4d',
  '#0b8f9b',
  '#b0306e',
  '#7a8450',
];
const DASHES = ['', '7 4', '2 3', '10 3 2 3', '5 2', '1 4', '12 4', '8 2 2 2', '3 5'];
const LEGEND_ROW = 24;

export function lineChart({ title, xTitle, yTitle, labels, series }: LineChart): string {
  const { left, top, right, bottom } = PLOT;
  const largest = Math.max(0, ...series.flatMap(({ values }) => values.map((each) => each ?? 0)));
  const step = niceStep(largest / TICKS);
  const highest = Math.max(step, Math.ceil(largest / step) * step);
  const x = (at: number) => left + ((right - left) * (at + 0.5)) / Math.max(1, labels.length);
  const y = (value: number) => bottom - (value / highest) * (bottom - top);
  const ticks = Array.from({ length: Math.round(highest / step) + 1 }, (_, at) => at * step);
  const { width, height } = SIZE;
  const centred = 'text-anchor="middle"';
  const turned = `${centred} transform="translate(22 ${(top + bottom) / 2}) rotate(-90)"`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(title)}" font-family="system-ui, sans-serif" font-size="13">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    text(left, 28, title, 'font-size="16" font-weight="600"'),
    ...ticks.flatMap((value) => [
      line(left, y(value), right, y(value), 'stroke="#d9d9d9"'),
      text(left - 8, y(value) + 4, numberText(value, step), 'text-anchor="end"'),
    ]),
    line(left, bottom, right, bottom, 'stroke="#333333"'),
    line(left, top, left, bottom, 'stroke="#333333"'),
    ...labels.map((label, at) => text(x(at), bottom + 20, label, centred)),
    text((left + right) / 2, bottom + 44, xTitle, centred),
    text(0, 0, yTitle, turned),
    ...series.flatMap(({ name, values }, at) => {
      const colour = COLOURS[at % COLOURS.length] ?? '';
      const stroke = `stroke="${colour}" stroke-width="2" fill="none" stroke-dasharray="${DASHES[at % DASHES.length]}"`;
      const points = values.flatMap((value, place) =>
        value === null ? [] : [[x(place), y(value)] as const],
      );
      const path = points.map((point) => point.map(fixed).join(',')).join(' ');
      const [from, row] = [right + 24, top + 8 + at * LEGEND_ROW];
      return [
        `<polyline points="${path}" ${stroke}/>`,
        ...points.map(([across, down]) => marker(at, across, down, colour)),
        line(from, row, from + 34, row, stroke),
        marker(at, from + 17, row, colour),
        text(from + 42, row + 4, name, ''),
      ];
    }),
    '</svg>\n',
  ].join('\n');
}

function marker(series: number, x: number, y: number, colour: string): string {
  const shapes = [
    `<circle cx="${fixed(x)}" cy="${fixed(y)}" r="4" fill="${colour}"/>`,
    `<rect x="${fixed(x - 4)}" y="${fixed(y - 4)}" width="8" height="8" fill="${colour}"/>`,
    `<path d="M${fixed(x)} ${fixed(y - 5)} l5 9 h-10 z" fill="${colour}"/>`,
  ];
  return shapes[series % shapes.length] ?? '';
}

function line(x1: number, y1: number, x2: number, y2: number, stroke: string): string {
  return `<line x1="${fixed(x1)}" y1="${fixed(y1)}" x2="${fixed(x2)}" y2="${fixed(y2)}" ${stroke}/>`;
}

function text(x: number, y: number, content: string, attributes: string): string {
  return `<text x="${fixed(x)}" y="${fixed(y)}" fill="#222222" ${attributes}>${escaped(content)}</text>`;
}

/** The next of 1, 2, 5 times a power of ten. */
function niceStep(least: number): number {
  if (!(least > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((each) => each * power >= least) ?? 10) * power;
}

function numberText(value: number, step: number): string {
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value.toLocaleString('en-US', options);
}

function fixed(value: number): string {
  return value.toFixed(1);
}

function escaped(content: string): string {
  const names: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot' };
  return content.replace(/[&<>"]/g, (each) => `&${names[each]};`);
}
