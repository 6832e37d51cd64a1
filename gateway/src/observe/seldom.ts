import { LRUCache } from 'lru-cache';

/**
 * Logs a repeated error at most once a minute. A full disk fails every upload, and a line for each
 * would use up the space that is left. Errors with the same system call and code count as repeats,
 * whatever file they are about.
 */

const INTERVAL_MS = 60_000;
/** Those that came longest ago are forgotten. */
const MAX_TROUBLES = 100;

/** `now` is in milliseconds. */
export function seldom(
  textOf: (error: Error) => string,
  tell: (text: string) => void,
  now = () => performance.now(),
): (error: Error) => void {
  const troubles = new LRUCache<string, { toldAt: number; repeats: number }>({ max: MAX_TROUBLES });
  return (error) => {
    const { syscall, code } = error as NodeJS.ErrnoException;
    const kind = syscall === undefined ? textOf(error) : `${syscall} ${code}`;
    const known = troubles.get(kind);
    if (known && now() - known.toldAt < INTERVAL_MS) {
      known.repeats += 1;
      return;
    }
    troubles.set(kind, { toldAt: now(), repeats: 0 });
    const text = textOf(error);
    tell(known?.repeats ? `${text} (${known.repeats} times more since it was last told)` : text);
  };
}
