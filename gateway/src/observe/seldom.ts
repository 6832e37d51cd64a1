import { LRUCache } from 'lru-cache';

/**
 * The same trouble is told once a minute, whatever repeats it: a full disk refuses every upload, and
 * a log that grows with them fills what is left.
 */

const INTERVAL_MS = 60_000;
/** Those that repeat longest ago are forgotten. */
const MAX_TEXTS = 100;

/** `now` is in milliseconds. */
export function seldom(
  tell: (text: string) => void,
  now = () => performance.now(),
): (text: string) => void {
  const texts = new LRUCache<string, { toldAt: number; repeats: number }>({ max: MAX_TEXTS });
  return (text) => {
    const known = texts.get(text);
    if (known && now() - known.toldAt < INTERVAL_MS) {
      known.repeats += 1;
      return;
    }
    texts.set(text, { toldAt: now(), repeats: 0 });
    tell(known?.repeats ? `${text} (${known.repeats} times more since it was last told)` : text);
  };
}
