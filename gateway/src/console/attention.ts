import type { Readiness, StorageMember, StoreStats } from '@stevedore/client';
import { formatBytes } from '@stevedore/options';
import { judgeStorage, trackerClock } from '../doctor/cluster.js';
import { type Finding, problem, warning } from '../doctor/finding.js';
import { loadOf, type StorageMigration } from './migrations.js';

/** What needs attention, worst first: findings like those of the doctor, from the state alone. */

export interface AttentionFacts {
  readonly now: number;
  readonly ready: Readiness;
  readonly stats: StoreStats;
  readonly trackers: readonly string[];
  /** Undefined while the trackers do not answer. */
  readonly cluster: readonly StorageMember[] | undefined;
  readonly migrations: readonly StorageMigration[];
  /** Since when files have waited without a trunk being stored; undefined if none waits. */
  readonly waitingSince: number | undefined;
  /** The longest time that a file is meant to wait. */
  readonly mergeMaxAgeMs: number;
  /** What the doctor says about who reaches the gateway. */
  readonly access: Finding | undefined;
  /** The last background error. */
  readonly trouble: { readonly at: number; readonly message: string } | undefined;
}

const FILLING_SHARE = 0.8;
const LOW_DISK_BYTES = 2 ** 30;
/** Beyond the time that files are meant to wait. */
const MERGE_SLACK_MS = 600_000;
const RECENT_TROUBLE_MS = 300_000;

export function attention(facts: AttentionFacts): readonly Finding[] {
  const findings = [
    ...fastdfs(facts),
    ...room(facts),
    ...copies(facts),
    ...merging(facts),
    ...storages(facts),
    ...(facts.access ? [facts.access] : []),
    ...trouble(facts),
  ].filter(({ verdict }) => verdict !== 'ok');
  const problems = findings.filter(({ verdict }) => verdict === 'problem');
  return [...problems, ...findings.filter(({ verdict }) => verdict !== 'problem')];
}

function fastdfs({ ready, trackers, stats }: AttentionFacts): Finding[] {
  const findings: Finding[] = [];
  if (!ready.trackerReachable) {
    const staged = `uploads continue on this disk, which has ${formatBytes(stats.stagedBytes)} staged`;
    findings.push(
      problem(
        'FastDFS is away',
        `no tracker answers (${trackers.join(', ')}); ${staged}`,
        'start a tracker, or check the network to it',
      ),
    );
  }
  const stuck = ready.problems.filter((each) => each.startsWith('trunks are not stored'));
  if (stuck.length > 0) {
    const advice = 'uploads go on until the container is full; make room on the storages';
    findings.push(warning('FastDFS takes no trunks', stuck.join(', '), advice));
  }
  const workers = ready.problems.filter((each) => each.startsWith('worker '));
  if (workers.length > 0) {
    const advice = 'it is started again by itself; the log says why it ended';
    findings.push(warning('A worker is away', workers.join(', '), advice));
  }
  return findings;
}

function room({ stats, ready }: AttentionFacts): Finding[] {
  const { usedBytes, limitBytes, freeBytes, full } = stats.room;
  const used = `${formatBytes(usedBytes)} of ${formatBytes(limitBytes)} are used, ${formatBytes(freeBytes)} are free on the disk`;
  const fix = 'let FastDFS take the files, or raise containerSize';
  if (!ready.accepting) {
    const why = full === undefined ? ready.problems.join(', ') : used;
    return [problem('Uploads are refused', why, full ? fix : 'see what is listed below')];
  }
  // Read copies give way by themselves.
  const mustStay = stats.unconfirmedTrunks > 0 || stats.stagedBytes > limitBytes / 2;
  if (mustStay && usedBytes > limitBytes * FILLING_SHARE) {
    return [warning('The container fills up', used, fix)];
  }
  if (limitBytes > 0 && freeBytes < LOW_DISK_BYTES) {
    return [warning('The disk is nearly full', used, 'make room, or lower containerSize')];
  }
  return [];
}

function copies({ stats }: AttentionFacts): Finding[] {
  const { damage, missingInFastdfs, unpackableFiles, copies: partner, map } = stats;
  const findings: Finding[] = [];
  if (missingInFastdfs > 0) {
    findings.push(
      problem(
        'FastDFS has lost files',
        `reads found ${missingInFastdfs} trunks or large files missing that nobody deleted here`,
        'restore them, or stop the gateway and run `stevedore fsck --repair`, which stores again what this disk still has',
      ),
    );
  }
  if (damage.quarantined > 0) {
    findings.push(
      problem(
        'Damage was found',
        `${damage.quarantined} copies are not what was stored, and are not read`,
        'check the disks, then stop the gateway and run `stevedore scrub`, which repairs what has a sound copy',
      ),
    );
  }
  if (unpackableFiles > 0) {
    findings.push(
      problem(
        'Staged files are damaged',
        `${unpackableFiles} files are damaged on this disk, which has their only copy`,
        'check the disk, and upload the files again; `stevedore fsck` lists them while the gateway is stopped',
      ),
    );
  }
  if (partner && partner.state !== 'up') {
    const { isRequired } = partner;
    const what = `uploads ${isRequired ? 'wait for FastDFS' : 'have one copy'}; ${formatBytes(partner.lagBytes)} are not known to be at the partner (${partner.state})`;
    findings.push(warning('No partner keeps second copies', what, 'start the partner gateway'));
  }
  if (map && !map.isMapAvailable) {
    const what = `${map.pending} changes wait for it; other gateways do not see them yet`;
    findings.push(warning('The map is away', what, 'start its PostgreSQL server'));
  }
  for (const { origin, url, stagedFiles, holder } of map?.silent ?? []) {
    const copies = holder === undefined ? 'have no other copy' : `are read at origin ${holder}`;
    findings.push(
      warning(
        `Gateway ${origin} is silent`,
        `${url ?? 'it'} has had no heartbeat for half a minute; ${stagedFiles} files staged there ${copies}`,
        `start it; if it stays away, another gateway adopts it, or \`stevedore adopt ${origin}\` has it adopted now`,
      ),
    );
  }
  return findings;
}

function merging({ now, stats, waitingSince, mergeMaxAgeMs, ready }: AttentionFacts): Finding[] {
  const waited = waitingSince === undefined ? 0 : now - waitingSince;
  // Without FastDFS it is no wonder.
  if (waited <= mergeMaxAgeMs + MERGE_SLACK_MS || !ready.trackerReachable) return [];
  const what = `${stats.stagedFiles} files (${formatBytes(stats.stagedBytes)}) wait, and no trunk was stored for ${Math.round(waited / 60_000)} minutes`;
  const advice = 'see the background errors; check that the storages have room';
  return [warning('Merging is behind', what, advice)];
}

function storages({ cluster = [], trackers, migrations, now }: AttentionFacts): Finding[] {
  const overloaded = migrations.filter(({ status }) => loadOf(status).forecast >= 1);
  return [
    ...cluster.map(judgeStorage),
    ...trackerClock(trackers.join(', '), cluster, now),
    ...overloaded.map(({ storage, status }) =>
      warning(
        `storage ${storage}`,
        'more load than its disk can serve is forecast',
        status.migrates && !status.isPaused
          ? 'it moves files to other storage groups; add one if that does not suffice'
          : 'let it move files (`stevedore migrate`), or add a storage group',
      ),
    ),
  ];
}

function trouble({ trouble: last, now, ready }: AttentionFacts): Finding[] {
  if (!last || now - last.at > RECENT_TROUBLE_MS || !ready.trackerReachable) return [];
  const advice = 'it is tried again; the list of background errors has the others';
  return [warning('A background error', last.message, advice)];
}
