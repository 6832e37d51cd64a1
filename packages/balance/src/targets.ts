import { type Load, spareLoad } from './load.js';

/**
 * Chooses the metadata server that takes a load (section 4.2.2, several MDSs). Pure. Two guards
 * keep a lightly loaded server from being swamped: no server exceeds its own efficiency mark, and
 * none is the target of two others in one interval.
 */

export interface ServerLoad extends Load {
  readonly id: string;
  /** B_logic for one interval. */
  readonly capacityBytes: number;
  /** The efficiency that it should not exceed. */
  readonly efficiencyMark: number;
}

export interface Overload {
  readonly id: string;
  /** TL: the load of its selected files. */
  readonly totalLoadBytes: number;
}

export interface Assignment {
  readonly sourceId: string;
  readonly targetId: string;
  /** Load that the target can take: Eq. 5, at most TL. */
  readonly roomBytes: number;
}

/**
 * Step (2): min(TL − ML(MDS, MDS')), read as the tightest fit among the servers that can take all
 * of TL; if none can, the one with the most room. Undefined if none has room. A server at or above
 * its mark has none.
 */
export function chooseTarget(
  overload: Overload,
  servers: readonly ServerLoad[],
): Assignment | undefined {
  let best: Candidate | undefined;
  for (const server of servers) {
    if (server.id === overload.id) continue;
    const spare = spareLoad(server, server.capacityBytes, server.efficiencyMark);
    if (spare <= 0) continue;
    const candidate = { id: server.id, spare, fits: spare >= overload.totalLoadBytes };
    if (best === undefined || better(candidate, best)) best = candidate;
  }
  if (best === undefined) return undefined;
  return {
    sourceId: overload.id,
    targetId: best.id,
    roomBytes: Math.min(best.spare, overload.totalLoadBytes),
  };
}

/**
 * The assignments of one interval, heaviest overload first. A source has at most one target, a
 * target one source, and no source is a target.
 */
export function assignTargets(
  overloads: readonly Overload[],
  servers: readonly ServerLoad[],
): Assignment[] {
  const taken = new Set(overloads.map(({ id }) => id));
  const assignments: Assignment[] = [];
  const order = [...overloads].sort(
    (a, b) => b.totalLoadBytes - a.totalLoadBytes || (a.id < b.id ? -1 : 1),
  );
  for (const overload of order) {
    if (!(overload.totalLoadBytes > 0)) continue;
    const assignment = chooseTarget(
      overload,
      servers.filter(({ id }) => !taken.has(id)),
    );
    if (assignment === undefined) continue;
    taken.add(assignment.targetId);
    assignments.push(assignment);
  }
  return assignments;
}

interface Candidate {
  readonly id: string;
  readonly spare: number;
  readonly fits: boolean;
}

function better(a: Candidate, b: Candidate): boolean {
  if (a.fits !== b.fits) return a.fits;
  if (a.spare !== b.spare) return a.fits ? a.spare < b.spare : a.spare > b.spare;
  return a.id < b.id;
}
