import type { IoServerRecord } from '@stevedore/protocol';

/**
 * Which I/O servers a new data file goes to. Pure. Those that are alive and have room,
 * beginning with another one each time, so that small data files, which have one stripe,
 * go round; as many as the file can use, `width` at most. None: there is no such server.
 */
export function chooseServers(
  servers: readonly IoServerRecord[],
  wanted: {
    /** Bytes of the file, if they are known. */
    readonly bytes: number | undefined;
    readonly stripeBytes: number;
    readonly width: number;
    /** Rises by one with every choice. */
    readonly turn: number;
  },
): string[] {
  const { bytes, stripeBytes, width, turn } = wanted;
  const share = bytes === undefined ? stripeBytes : Math.ceil(bytes / width) + stripeBytes;
  const fit = servers
    .filter(({ isActive, freeBytes }) => isActive && freeBytes >= share)
    .map(({ id }) => id)
    .sort();
  if (fit.length === 0) return [];
  const first = turn % fit.length;
  return [...fit.slice(first), ...fit.slice(0, first)].slice(0, width);
}
