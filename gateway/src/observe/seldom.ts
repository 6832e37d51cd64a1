import { LRUCache } from 'lru-cache';

/**
 * The same trouble is told once a minute, whatever repeats it: a full disk refuses every upload, and
 * a log that grows with them fills what is left. Errors of one system call are the same, whichever
 * file it was for.
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
