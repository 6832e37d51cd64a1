import type { Staging } from '@stevedore/staging';
import type { Clients } from './cluster.js';
import type { Readiness } from './types.js';

const PING_TIMEOUT_MS = 2_000;

/** Whether files can be stored durably now, and a tracker answers. */
export async function readiness(
  staging: Staging,
  client: Clients['reading'],
  isOpen: boolean,
): Promise<Readiness> {
  const problems: string[] = [];
  const hasRoom = isOpen && staging.acceptance.hasRoom();
  const hasPartner = staging.copies?.isAccepting ?? true;
  const accepting = hasRoom && hasPartner;
  if (!hasRoom) {
    problems.push(
      staging.stats().room.full === 'disk' ? 'the disk is full' : 'the container is full',
    );
  }
  if (!hasPartner) problems.push('the partner that keeps the second copy is away');
  const tracker = await client.ping({ deadlineMs: PING_TIMEOUT_MS }).then(
    () => undefined,
    (error: Error) => error.message,
  );
  if (tracker !== undefined) problems.push(`no tracker answers: ${tracker}`);
  const trackerReachable = tracker === undefined;
  return { ready: accepting && trackerReachable, accepting, trackerReachable, problems };
}
