/**
 * Line charts as SVG text, readable without colours: every series has a marker and
 * a dash of its own, and its name beside the chart. The x axis has one place per
 * label, evenly spaced; the y axis begins at zero. Pure.
 */

export interface Series {
  readonly name: string;
  /** One per label; undefined leaves a gap. */
  readonly values: readonly (number | undefined)[];
}

export interface LineChart {
  readonly title: string;
  readonly xTitle: string;
  readonly yTitle: string;
  readonly labels: readonly string[];
  readonly series: readonly Series[];
}

const WIDTH = 940;
const HEIGHT = 420;
const PLOT = { left: 76, top: 52, right: 590, bottom: 356 };
const TICKS = 5;
const COLOURS = ['#1b6ca8', '#c8553d', '#3a7d44', '#7b4fa3', '#8a6d1d', '#4d4d4d'];
const DASHES = ['', '7 4', '2 3', '10 3 2 3', '5 2', '1 4'];
const FONT = 'font-family="system-ui, sans-serif"';
const LEGEND_ROW = 24;

export function lineChart(chart: LineChart): string {
  const largest = Math.max(0, ...chart.series.flatMap(({ values }) => values.map((v) => v ?? 0)));
  const step = niceStep(largest / TICKS);
  const top = Math.max(step, Math.ceil(largest / step) * step);
  const place: Place = {
    x: (index) => spaced(index, chart.labels.length),
    y: (value) => PLOT.bottom - (value / top) * (PLOT.bottom - PLOT.top),
  };
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img" aria-label="${escaped(chart.title)}">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    text(PLOT.left, 28, chart.title, 'font-size="16" font-weight="600"'),
    ...grid(place, step, top),
    ...axes(chart, place),
    ...chart.series.flatMap((series, index) => drawn(series, index, place)),
    '</svg>',
    '',
  ].join('\n');
}

interface Place {
  readonly x: (index: number) => number;
  readonly y: (value: number) => number;
}

function grid(place: Place, step: number, top: number): string[] {
  const lines: string[] = [];
  for (let value = 0; value <= top + step / 2; value += step) {
    const y = fixed(place.y(value));
    lines.push(
      `<line x1="${PLOT.left}" y1="${y}" x2="${PLOT.right}" y2="${y}" stroke="#d9d9d9"/>`,
      text(PLOT.left - 8, place.y(value) + 4, numberText(value, step), 'text-anchor="end"'),
    );
  }
  return lines;
}

function axes({ labels, xTitle, yTitle }: LineChart, place: Place): string[] {
  const middle = (PLOT.top + PLOT.bottom) / 2;
  return [
    `<line x1="${PLOT.left}" y1="${PLOT.bottom}" x2="${PLOT.right}" y2="${PLOT.bottom}" stroke="#333333"/>`,
    `<line x1="${PLOT.left}" y1="${PLOT.top}" x2="${PLOT.left}" y2="${PLOT.bottom}" stroke="#333333"/>`,
    ...labels.map((label, index) =>
      text(place.x(index), PLOT.bottom + 20, label, 'text-anchor="middle"'),
    ),
    text((PLOT.left + PLOT.right) / 2, PLOT.bottom + 44, xTitle, 'text-anchor="middle"'),
    text(0, 0, yTitle, `text-anchor="middle" transform="translate(22 ${middle}) rotate(-90)"`),
  ];
}

function drawn({ name, values }: Series, index: number, place: Place): string[] {
  const colour = COLOURS[index % COLOURS.length]!;
  const dash = DASHES[index % DASHES.length]!;
  const stroke = `stroke="${colour}" stroke-width="2" fill="none"${dash ? ` stroke-dasharray="${dash}"` : ''}`;
  const points = values.flatMap((value, at) =>
    value === undefined ? [] : [{ x: place.x(at), y: place.y(value) }],
  );
  const path = points.map(({ x, y }) => `${fixed(x)},${fixed(y)}`).join(' ');
  const legend = { x: PLOT.right + 24, y: PLOT.top + 8 + index * LEGEND_ROW };
  return [
    `<polyline points="${path}" ${stroke}/>`,
    ...points.map(({ x, y }) => marker(index, x, y, colour)),
    `<line x1="${legend.x}" y1="${legend.y}" x2="${legend.x + 34}" y2="${legend.y}" ${stroke}/>`,
    marker(index, legend.x + 17, legend.y, colour),
    text(legend.x + 42, legend.y + 4, name, ''),
  ];
}

function marker(index: number, x: number, y: number, colour: string): string {
  switch (index % 3) {
    case 0:
      return `<circle cx="${fixed(x)}" cy="${fixed(y)}" r="4" fill="${colour}"/>`;
    case 1:
      return `<rect x="${fixed(x - 4)}" y="${fixed(y - 4)}" width="8" height="8" fill="${colour}"/>`;
    default:
      return `<path d="M${fixed(x)} ${fixed(y - 5)} l5 9 h-10 z" fill="${colour}"/>`;
  }
}

function spaced(index: number, count: number): number {
  const room = PLOT.right - PLOT.left;
  return PLOT.left + (room * (index + 0.5)) / Math.max(1, count);
}

/** The next of 1, 2, 5 times a power of ten. */
function niceStep(least: number): number {
  if (!(least > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  const factor = [1, 2, 5, 10].find((each) => each * power >= least) ?? 10;
  return factor * power;
}

function numberText(value: number, step: number): string {
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  return value.toLocaleString('en-US', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

function text(x: number, y: number, content: string, attributes: string): string {
  const size = attributes.includes('font-size') ? '' : ' font-size="13"';
  return `<text x="${fixed(x)}" y="${fixed(y)}" ${FONT}${size} fill="#222222" ${attributes}>${escaped(content)}</text>`;
}

function fixed(value: number): string {
  return value.toFixed(1);
}

function escaped(content: string): string {
  return content
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
