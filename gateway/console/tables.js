// What needs attention, worst first, as the gateway found it; and the tables of the console: merges,
// storages, what these move, and trouble.
import {
  at,
  bar,
  element,
  formatBytes,
  formatClock,
  formatDuration,
  formatMoment,
  formatNumber,
  formatPercent,
  plural,
  table,
} from './view.js';

const MERGES_SHOWN = 12;

export function merges(list) {
  if (list.length === 0)
    return element('p', { className: 'empty' }, 'Nothing merged since the start.');
  const columns = [
    { title: 'Stored', cell: (merge) => formatClock(merge.at) },
    { title: 'Kind', cell: (merge) => (merge.kind === 'whole' ? 'large file' : 'trunk') },
    { title: 'Files', number: true, cell: (merge) => formatNumber(merge.files) },
    { title: 'Size', number: true, cell: (merge) => formatBytes(merge.bytes) },
    {
      title: 'Fill',
      className: 'fill',
      cell: (merge) =>
        merge.kind === 'whole'
          ? 'whole'
          : element('span', { className: 'share' }, bar(merge.fill), formatPercent(merge.fill)),
    },
    { title: 'Took', number: true, cell: (merge) => formatDuration(merge.durationMs) },
    {
      title: 'FastDFS id',
      cell: (merge) => element('span', { className: 'id' }, merge.fileId || 'hidden: no API keys'),
    },
  ];
  return table('Latest merges', columns, [...list].reverse().slice(0, MERGES_SHOWN));
}

export function cluster({ cluster: members, trackers, now }) {
  if (!members)
    return element('p', { className: 'empty' }, `No tracker answers (${trackers.join(', ')}).`);
  if (members.length === 0)
    return element('p', { className: 'empty' }, 'No storage has joined the trackers yet.');
  const columns = [
    { title: 'Storage group', cell: (member) => member.group },
    { title: 'Storage', cell: (member) => element('span', { className: 'id' }, member.address) },
    {
      title: 'State',
      cell: (member) =>
        element(
          'span',
          { className: member.active ? 'good' : 'bad' },
          member.active ? 'active' : 'not active',
        ),
    },
    { title: 'Free', number: true, cell: (member) => formatBytes(member.freeBytes) },
    { title: 'Size', number: true, cell: (member) => formatBytes(member.totalBytes) },
    {
      title: 'Last heartbeat',
      cell: (member) =>
        member.lastHeartbeatAt
          ? `${formatDuration(Math.max(0, now - Date.parse(member.lastHeartbeatAt)))} ago`
          : '',
    },
    { title: 'Version', cell: (member) => member.version },
  ];
  return table(`Storages, according to ${trackers.join(', ')}`, columns, members);
}

/** Load, forecast and moves of storages with tiers. */
export function migrations(list) {
  const columns = [
    { title: 'Storage', cell: ({ storage }) => element('span', { className: 'id' }, storage) },
    { title: 'State', cell: ({ status }) => movingState(status) },
    {
      title: 'Small files',
      className: 'load',
      cell: ({ status }) => load(status.load.smallFile, status.capacityBytes),
    },
    {
      title: 'Metadata',
      className: 'load',
      cell: ({ status }) => load(status.load.metadata, status.capacityBytes),
    },
    { title: 'Threshold', number: true, cell: ({ status }) => formatBytes(status.thresholdBytes) },
    {
      title: 'In rows',
      number: true,
      cell: ({ status }) =>
        `${plural(status.rows.files, 'file')}, ${formatBytes(status.rows.bytes)}`,
    },
    {
      title: 'Moved',
      number: true,
      cell: ({ status }) =>
        `${plural(status.moves.moved, 'file')}, ${formatBytes(status.movedBytes)}`,
    },
    { title: 'Wait', number: true, cell: ({ status }) => formatNumber(status.queued) },
  ];
  return table('Load and migration of storages', columns, list);
}

function movingState({ migrates, isPaused, isDryRun, moves }) {
  const text = isPaused
    ? 'paused'
    : isDryRun
      ? 'dry run'
      : migrates
        ? 'moves files'
        : 'only files that outgrow rows';
  const className = isPaused || isDryRun ? 'warn' : moves.failed > 0 ? 'bad' : 'good';
  return element('span', { className }, text);
}

/** Load of a class and, behind the arrow, its forecast, as shares of what can be served. */
function load({ loadBytes, forecastBytes }, capacityBytes) {
  const share = (bytes) => (capacityBytes === 0 ? 0 : bytes / capacityBytes);
  const [now, next] = [share(loadBytes), share(forecastBytes)];
  const text = `${formatPercent(now)} → ${formatPercent(next)}`;
  return element('span', { className: 'share' }, bar(next, next >= 1 ? 'bad' : undefined), text);
}

export function troubleItem({ at: time, code, message, times }) {
  const often = times > 1 ? `, ${formatNumber(times)} times` : '';
  return element(
    'li',
    {},
    element('span', { className: 'hint' }, `${formatMoment(time)}, ${code}${often}`),
    element('br'),
    message,
  );
}

let drawn;

export function drawAttention(findings) {
  // A screen reader speaks at every change, so only a change is one.
  const text = JSON.stringify(findings);
  if (text === drawn) return;
  drawn = text;
  at('attention').replaceChildren(
    ...(findings.length === 0
      ? [element('p', { className: 'calm' }, 'Nothing needs attention.')]
      : [element('ul', { className: 'attention' }, ...findings.map(item))]),
  );
}

/** One sentence: what it is, and what to do. */
function item({ what, verdict, detail, advice }) {
  const level = element('span', { className: 'level' }, verdict);
  const name = element('strong', {}, `${what[0].toUpperCase()}${what.slice(1)}`);
  const said = element('p', {}, name, `: ${detail}. `, element('em', {}, `To do: ${advice}.`));
  return element('li', { dataset: { level: verdict } }, level, said);
}
