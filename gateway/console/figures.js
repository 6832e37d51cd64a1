// The figures of the console, in groups: files, this disk, FastDFS, memory.
import { bar, element, facts, formatBytes, formatNumber, formatPercent, plural } from './view.js';

export function figures({ stats }) {
  const { room, cache, connections, damage, orphans } = stats;
  const used = room.limitBytes === 0 ? 0 : room.usedBytes / room.limitBytes;
  const asked = cache.hits + cache.misses;
  return [
    group('Files', [
      ['Staged', `${plural(stats.stagedFiles, 'file')}, ${formatBytes(stats.stagedBytes)}`],
      [
        'In FastDFS',
        `${plural(stats.mergedFiles, 'file')}, ${formatBytes(stats.mergedBytes)}, in ${plural(stats.trunks, 'trunk')}`,
      ],
      [
        'Uploaded since the start',
        `${plural(stats.acknowledgedFiles, 'file')}, ${formatBytes(stats.acknowledgedBytes)}`,
      ],
      ['Read since the start', `${plural(stats.reads, 'time')}, ${formatBytes(stats.readBytes)}`],
      [
        'Unfinished uploads',
        `${formatNumber(stats.unfinishedUploads)}, ${formatBytes(stats.unfinishedBytes)}`,
      ],
    ]),
    group('This disk', [
      ['Container', container(used, room)],
      ['Free', formatBytes(room.freeBytes)],
      ['Damaged copies', formatNumber(damage.quarantined)],
      ['Repaired since the start', formatNumber(damage.repaired)],
    ]),
    group('FastDFS', [
      [
        'Being sent',
        `${plural(stats.trunksInFlight, 'trunk')}, ${plural(stats.largeFilesInFlight, 'large file')}`,
      ],
      ['Failed attempts', formatNumber(stats.sendRetries)],
      ['Trunks not confirmed', formatNumber(stats.unconfirmedTrunks)],
      ['Abandoned trunks', formatNumber(orphans.openPlans)],
      [
        'Connections',
        `${formatNumber(connections.open)}, ${formatNumber(connections.idle)} of them idle`,
      ],
    ]),
    group('Memory', [
      [
        'Cache hits',
        asked === 0
          ? 'nothing looked up yet'
          : `${formatPercent(cache.hits / asked)} of ${plural(asked, 'look-up')}`,
      ],
      ['Cached', formatBytes(cache.bytes)],
    ]),
  ];
}

function group(title, entries) {
  return element('div', {}, element('h3', {}, title), facts(entries));
}

function container(used, room) {
  const state = room.full ? 'bad' : used > 0.8 ? 'warn' : undefined;
  const text = `${formatBytes(room.usedBytes)} of ${formatBytes(room.limitBytes)} (${formatPercent(used)})`;
  return element('span', {}, text, bar(used, state));
}
