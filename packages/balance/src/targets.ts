import { type Load, spareLoad } from './load.js';

/**
 * Chooses the metadata server that takes a load (section 4.2.2, several MDSs). Pure. No server
 * exceeds its own efficiency mark; that none is the target of two others in one interval is for the
 * target to see to.
 */

export interface ServerLoad extends Load {
  readonly id: string;
  /** B_logic for one interval. */
  readonly capacityBytes: number;
  /** The efficiency that it should not exceed. */
  readonly efficiencyMark: number;
}

export interface Target {
  readonly id: string;
  /** Load that it can take: Eq. 5, at most TL. */
  readonly roomBytes: number;
}

/**
 * Step (2): min(TL − ML(MDS, MDS')), read as the tightest fit among the servers that can take all
 * of TL; if none can, the one with the most room. Undefined if none has room. A server at or above
 * its mark has none.
 */
export function chooseTarget(
  totalLoadBytes: number,
  servers: readonly ServerLoad[],
): Target | undefined {
  const candidates = servers
    .map((server) => ({
      id: server.id,
      spare: spareLoad(server, server.capacityBytes, server.efficiencyMark),
    }))
    .filter(({ spare }) => spare > 0)
    .sort((a, b) => a.spare - b.spare || (a.id < b.id ? -1 : 1));
  const tightest = candidates.find(({ spare }) => spare >= totalLoadBytes);
  const most = candidates.at(-1);
  const best = tightest ?? candidates.find(({ spare }) => spare === most?.spare);
  return best && { id: best.id, roomBytes: Math.min(best.spare, totalLoadBytes) };
}
