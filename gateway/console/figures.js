// The figures of the console: what there is now, and the last ten minutes.
import {
  bar,
  chart,
  element,
  formatBytes,
  formatNumber,
  formatPercent,
  formatRate,
  plural,
  tile,
} from './view.js';

const SPAN_MS = 600_000;

export function tiles({ stats, samples }) {
  const { room, cache, connections } = stats;
  const used = room.limitBytes === 0 ? 0 : room.usedBytes / room.limitBytes;
  const asked = cache.hits + cache.misses;
  const sending = stats.trunksInFlight + stats.largeFilesInFlight;
  const rates = ratesOf(samples).at(-1);
  return [
    tile(
      'Staged',
      formatBytes(stats.stagedBytes),
      `${plural(stats.stagedFiles, 'file')}, on this disk only`,
    ),
    tile(
      'In FastDFS',
      formatBytes(stats.mergedBytes),
      `${plural(stats.mergedFiles, 'file')} in ${plural(stats.trunks, 'trunk')}`,
    ),
    tile(
      'Container',
      formatPercent(used),
      `${formatBytes(room.usedBytes)} of ${formatBytes(room.limitBytes)}; ${formatBytes(room.freeBytes)} free on the disk`,
      bar(used, room.full ? 'bad' : used > 0.8 ? 'warn' : undefined),
    ),
    tile(
      'In flight',
      formatNumber(sending),
      `trunks and large files; ${formatNumber(stats.sendRetries)} retries`,
    ),
    tile(
      'Uploads',
      `${formatRate(rates?.uploads ?? 0)} /s`,
      `${plural(stats.acknowledgedFiles, 'file')}, ${formatBytes(stats.acknowledgedBytes)} since the start`,
    ),
    tile(
      'Reads',
      `${formatRate(rates?.reads ?? 0)} /s`,
      `${formatNumber(stats.reads)} since the start`,
    ),
    tile(
      'Cache hits',
      asked === 0 ? 'none yet' : formatPercent(cache.hits / asked),
      `of ${formatNumber(asked)} reads from FastDFS; ${formatBytes(cache.bytes)} cached`,
    ),
    copies(stats),
    tile(
      'Connections',
      formatNumber(connections.open),
      `to FastDFS, ${formatNumber(connections.idle)} idle, ${formatNumber(connections.queued)} calls waiting`,
    ),
  ];
}

/** What is known of copies whose bytes are not those that were stored. */
function copies({ damage, orphans }) {
  const { found, repaired, quarantined } = damage;
  const value = quarantined === 0 ? 'sound' : `${formatNumber(quarantined)} damaged`;
  const shown = quarantined === 0 ? value : element('span', { className: 'bad' }, value);
  const more = `${formatNumber(found)} found damaged, ${formatNumber(repaired)} repaired; ${plural(orphans.openPlans, 'open plan')}`;
  return tile('Copies', shown, more);
}

/** Between each two samples, a second. */
function ratesOf(samples) {
  return samples.slice(1).map((sample, index) => {
    const before = samples[index];
    const seconds = Math.max((sample.at - before.at) / 1000, 0.001);
    return {
      at: sample.at,
      uploads: (sample.acknowledgedFiles - before.acknowledgedFiles) / seconds,
      reads: (sample.reads - before.reads) / seconds,
    };
  });
}

export function charts({ samples, now }) {
  const rates = ratesOf(samples);
  const staged = samples.map((sample) => [sample.at, sample.stagedBytes]);
  const uploads = rates.map((rate) => [rate.at, rate.uploads]);
  const reads = rates.map((rate) => [rate.at, rate.reads]);
  const aSecond = (rate) => `${formatRate(rate)} /s`;
  return [
    chart('Staged bytes', staged, formatBytes, now, SPAN_MS),
    chart('Uploads', uploads, aSecond, now, SPAN_MS),
    chart('Reads', reads, aSecond, now, SPAN_MS),
  ];
}
