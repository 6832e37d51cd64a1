import type { Staging, StoreErrorCode } from '@stevedore/staging';
import type { Clients } from './cluster.js';
import type { Readiness } from './types.js';

const PING_TIMEOUT_MS = 2_000;
const REFUSALS: Readonly<Partial<Record<StoreErrorCode, string>>> = {
  closed: 'the store is closed',
  container_full: 'the container is full',
  disk_failed: 'the disk fails',
  disk_full: 'the disk is full',
  filemap_locked: 'another program holds a lock on the FileMap',
  overloaded: 'the process is out of open files or memory',
};

/**
 * Whether files can be stored durably now, and a tracker answers. `troubles` of the deployment are
 * problems, too: this server stores files in spite of them.
 */
export async function readiness(
  staging: Staging,
  client: Clients['reading'],
  isOpen: boolean,
  troubles: readonly string[],
): Promise<Readiness> {
  const problems: string[] = [...troubles];
  const refusal = isOpen ? staging.acceptance.refusal() : 'closed';
  const hasPartner = staging.copies?.isAccepting ?? true;
  const accepting = refusal === undefined && hasPartner;
  if (refusal) problems.push(REFUSALS[refusal] ?? `uploads fail: ${refusal}`);
  const partner = staging.copies?.stats();
  if (partner && partner.state !== 'up') {
    const wait = hasPartner ? 'uploads wait for FastDFS' : 'FastDFS stores nothing either';
    const then = partner.isRequired ? wait : 'uploads are acknowledged with one copy';
    problems.push(`the partner (${partner.partner ?? 'none yet'}) has no second copies: ${then}`);
  }
  const tracker = await client.ping({ deadlineMs: PING_TIMEOUT_MS }).then(
    () => undefined,
    (error: Error) => error.message,
  );
  if (tracker !== undefined) problems.push(`no tracker answers: ${tracker}`);
  const trackerReachable = tracker === undefined;
  const { failure } = staging.merging.inFlight;
  if (trackerReachable && failure) problems.push(`trunks are not stored: ${failure.message}`);
  return { ready: accepting && trackerReachable, accepting, trackerReachable, problems };
}
