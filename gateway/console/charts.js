// The charts: what the gateway remembers of the last hour or day. uPlot draws them.
import uPlot from './lib/uplot.js';
import {
  at,
  element,
  formatBytes,
  formatClock,
  formatMoment,
  formatPercent,
  formatRate,
} from './view.js';

const SPAN_MS = { hour: 3_600_000, day: 86_400_000 };
/** A gateway that has just started shows this much time. */
const SHORTEST_MS = 300_000;
const HEIGHT = 180;

/** Bytes are counted in powers of two. */
const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

const aSecond = (rate) => `${formatRate(rate)} /s`;
const aMinute = (rate) => `${formatRate(rate)} /min`;
/** Ticks are not rounded: two of them would say the same, or a wrong number. */
const exact = (value) => String(Number(value.toPrecision(6)));
const TICKS = new Map([
  [aSecond, (rate) => `${exact(rate)} /s`],
  [aMinute, (rate) => `${exact(rate)} /min`],
  [formatBytes, (bytes) => formatBytes(bytes).replace(/\.0+ /, ' ')],
  [formatPercent, (share) => `${exact(share * 100)} %`],
]);

/** Columns are those of the gateway's table. */
const CHARTS = [
  {
    title: 'Uploads and downloads',
    series: [
      { label: 'Uploads', column: 'uploadsPerSecond', format: aSecond },
      { label: 'Downloads', column: 'downloadsPerSecond', format: aSecond },
    ],
  },
  {
    title: 'Staged on this disk',
    series: [{ label: 'Staged', column: 'stagedBytes', format: formatBytes, scale: 'bytes' }],
  },
  {
    title: 'Trunks stored',
    series: [
      { label: 'Trunks', column: 'trunksPerMinute', format: aMinute },
      { label: 'Fill', column: 'fill', format: formatPercent, scale: 'share' },
    ],
  },
  {
    title: 'Cache',
    series: [{ label: 'Cache hits', column: 'cacheHits', format: formatPercent, scale: 'share' }],
  },
  {
    title: 'Load of the metadata tier',
    isOptional: true,
    series: [
      { label: 'Load', column: 'load', format: formatPercent },
      { label: 'Forecast', column: 'forecast', format: formatPercent },
    ],
  },
];

/** What is drawn: by title, the chart and its figure. */
const drawn = new Map();
let latest;

/** `table` is the gateway's history. */
export function drawCharts(table, span) {
  latest = { table, span };
  const shown = CHARTS.filter(
    ({ isOptional, series }) =>
      !isOptional || series.some(({ column }) => hasValues(table[column])),
  );
  for (const [title, { chart, figure }] of drawn) {
    if (shown.some((each) => each.title === title)) continue;
    chart.destroy();
    figure.remove();
    drawn.delete(title);
  }
  for (const each of shown) draw(each, table, span);
}

function hasValues(values) {
  return values.some((value) => value !== null);
}

function draw(spec, table, span) {
  const data = [table.at, ...spec.series.map(({ column }) => table[column])];
  let entry = drawn.get(spec.title);
  if (!entry) {
    entry = begin(spec, data);
    drawn.set(spec.title, entry);
  }
  entry.span = span;
  entry.chart.setData(data);
  const texts = spec.series.map(({ label, format }, index) => {
    const known = data[index + 1].filter((value) => value !== null);
    if (known.length === 0) return `${label}: nothing yet`;
    return `${label}: ${format(known.at(-1))} now, ${format(Math.max(...known))} at the most`;
  });
  entry.plot.ariaLabel = `${spec.title}. ${texts.join('. ')}.`;
}

function begin(spec, data) {
  const plot = element('div', { className: 'plot', tabIndex: 0, role: 'group' });
  plot.setAttribute('aria-roledescription', 'chart');
  const figure = element('figure', {}, element('figcaption', {}, spec.title), plot);
  at('charts').append(figure);
  const entry = { figure, plot, span: 'hour' };
  entry.chart = new uPlot(optionsOf(spec, entry), data, plot);
  entry.resizing = new ResizeObserver(() => {
    const width = plot.clientWidth;
    if (width > 0) entry.chart.setSize({ width, height: HEIGHT });
  });
  entry.resizing.observe(plot);
  plot.addEventListener('keydown', (event) => move(event, entry.chart, spec));
  plot.addEventListener('blur', () => entry.chart.setCursor({ left: -10, top: -10 }));
  return entry;
}

function optionsOf({ series }, entry) {
  const axes = [...new Set(series.map(({ scale = 'y' }) => scale))];
  return {
    width: entry.plot.clientWidth || 320,
    height: HEIGHT,
    cursor: { y: false, drag: { x: false, y: false } },
    scales: {
      x: { time: true, range: () => timeRange(entry.span) },
      y: { range: (_, __, highest) => [0, highest > 0 ? highest * 1.1 : 1] },
      bytes: { range: (_, __, highest) => [0, Math.max(highest * 1.1, 2 ** 20)] },
      share: { range: () => [0, 1.02] },
    },
    axes: [
      { ...look(), space: 64, values: (_, times) => times.map((time) => timeText(time)) },
      ...axes.map((scale, index) => ({
        ...look(),
        scale,
        size: 76,
        side: index === 0 ? 3 : 1,
        space: 28,
        ...(index === 0 ? {} : { grid: { show: false } }),
        ...(scale === 'bytes' ? { incrs: BYTE_STEPS } : {}),
        values: (_, values) => values.map(TICKS.get(formatOf(series, scale))),
      })),
    ],
    series: [
      { label: 'Time', value: (chart, time) => momentText(time ?? chart.data[0].at(-1)) },
      ...series.map(({ label, format, scale = 'y' }, index) => ({
        label,
        scale,
        width: 2,
        spanGaps: false,
        stroke: () => colour(index === 0 ? '--accent' : '--second'),
        ...(index === 0 ? { fill: () => colour('--accent-soft') } : { dash: [6, 4] }),
        // Without a pointer, the legend has the last value.
        value: (chart, value, at, index) => {
          const shown = index === null ? chart.data[at].findLast((each) => each !== null) : value;
          return shown === null || shown === undefined ? 'nothing' : format(shown);
        },
      })),
    ],
  };
}

function formatOf(series, scale) {
  return series.find((each) => (each.scale ?? 'y') === scale).format;
}

function look() {
  const line = { stroke: () => colour('--line'), width: 1 };
  return { stroke: () => colour('--quiet'), grid: line, ticks: line, font: '12px system-ui' };
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** In seconds. */
function timeRange(span) {
  const now = Date.now();
  const first = (latest?.table.at[0] ?? now / 1000) * 1000;
  const from = Math.max(now - SPAN_MS[span], Math.min(first, now - SHORTEST_MS));
  return [from / 1000, now / 1000];
}

function timeText(seconds) {
  return formatClock(seconds * 1000).slice(0, 5);
}

function momentText(seconds) {
  if (seconds === undefined) return 'nothing yet';
  return latest?.span === 'day' ? formatMoment(seconds * 1000) : formatClock(seconds * 1000);
}

/** With the arrow keys, as with a pointer. */
function move(event, chart, { series }) {
  const times = chart.data[0];
  const step = { ArrowLeft: -1, ArrowRight: 1, Home: -times.length, End: times.length }[event.key];
  if (step === undefined || times.length === 0) return;
  event.preventDefault();
  const from = chart.cursor.idx ?? times.length;
  const index = Math.min(times.length - 1, Math.max(0, from + step));
  chart.setCursor({ left: chart.valToPos(times[index], 'x'), top: 10 });
  const texts = series.map(({ label, format }, number) => {
    const value = chart.data[number + 1][index];
    return `${label} ${value === null ? 'nothing' : format(value)}`;
  });
  at('chart-said').textContent = `${momentText(times[index])}: ${texts.join(', ')}`;
}

// The colours are those of the palette that the system asks for.
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const { chart, figure, resizing } of drawn.values()) {
    resizing.disconnect();
    chart.destroy();
    figure.remove();
  }
  drawn.clear();
  if (latest) drawCharts(latest.table, latest.span);
});
