import type { StorageMember } from '@stevedore/client';
import type { ClusterFinding } from '@stevedore/client/internal';
import { formatBytes } from '@stevedore/options';
import { type Finding, judged, ok, problem, warning } from './finding.js';

/** Checks a cluster: which servers answer, which have space, whose clock is wrong. */

const LOW_FREE_BYTES = 2 ** 30;
const CLOCK_SLACK_MS = 5_000;
/** Storages report every 30 s by default. */
const HEARTBEAT_SLACK_MS = 120_000;

export function judgeCluster({ trackers, probe }: ClusterFinding, now: number): Finding[] {
  const findings: Finding[] = [];
  const reached = trackers.filter(({ error }) => error === undefined);
  for (const { address, error, roundTripMs, storages } of trackers) {
    if (error !== undefined) {
      const make = reached.length > 0 ? warning : problem;
      const advice = 'start it, or check that its port is open to this machine';
      findings.push(make(`tracker ${address}`, error, advice));
      continue;
    }
    const active = storages.filter((storage) => storage.active).length;
    const detail = `answers in ${roundTripMs.toFixed(1)} ms and knows ${storages.length} storages, ${active} of them active`;
    const none = 'start a storage; one that has just started needs up to half a minute';
    findings.push(judged(`tracker ${address}`, detail, [active === 0, none, problem]));
    findings.push(...trackerClock(address, storages, now));
  }
  const storages = reached.flatMap((tracker) => tracker.storages);
  const byAddress = new Map(storages.map((storage) => [storage.address, storage]));
  findings.push(...[...byAddress.values()].map(judgeStorage));
  if (probe) findings.push(judgeProbe(probe), ...storageClock(probe));
  return findings;
}

export function judgeStorage({
  group,
  address,
  version,
  active,
  freeBytes,
}: StorageMember): Finding {
  const state = active ? '' : ', not active';
  return judged(
    `storage ${address}`,
    `${group}, version ${version}, ${formatBytes(freeBytes)} free${state}`,
    [!active, 'start it, or let it finish catching up'],
    [freeBytes < LOW_FREE_BYTES, 'it will soon refuse files: make room or add a storage'],
  );
}

function judgeProbe({ error, durationMs }: NonNullable<ClusterFinding['probe']>): Finding {
  if (error === undefined) {
    return ok('storing', `a file was stored, read and deleted in ${durationMs.toFixed(0)} ms`);
  }
  return problem(
    'storing',
    error,
    'check that this machine reaches the storages at the addresses the trackers name',
  );
}

/** The id of the probe contains the storage's time in whole seconds. */
function storageClock({
  storageTime,
  from,
  until,
}: NonNullable<ClusterFinding['probe']>): Finding[] {
  if (!storageTime) return [];
  const behind = from.getTime() - 1000 - storageTime.getTime();
  const ahead = storageTime.getTime() - until.getTime();
  const offMs = Math.max(behind, ahead);
  if (offMs <= CLOCK_SLACK_MS) return [ok('clock of the storage', "as this machine's")];
  const detail = `${Math.round(offMs / 1000)} s ${behind > ahead ? 'behind' : 'ahead of'} this machine's`;
  const advice = 'synchronise all clocks with NTP: URL tokens and replication depend on them';
  return [warning('clock of the storage', detail, advice)];
}

/** The newest heartbeat has just arrived, by the tracker's clock. */
export function trackerClock(
  address: string,
  storages: readonly StorageMember[],
  now: number,
): Finding[] {
  const active = storages.filter((storage) => storage.active);
  const heard = active.flatMap(({ lastHeartbeatAt }) =>
    lastHeartbeatAt ? [lastHeartbeatAt.getTime()] : [],
  );
  if (heard.length === 0) return [];
  const newest = Math.max(...heard);
  const ahead = newest - now;
  if (ahead <= CLOCK_SLACK_MS && -ahead <= HEARTBEAT_SLACK_MS) return [];
  const detail = `about ${Math.round(Math.abs(ahead) / 1000)} s ${ahead > 0 ? 'ahead of' : 'behind'} this machine's`;
  return [warning(`clock of tracker ${address}`, detail, 'synchronise all clocks with NTP')];
}
