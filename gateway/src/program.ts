import { readFileSync } from 'node:fs';

/** The files of this package beside its modules, which the published package has in one folder. */
export const PACKAGE = new URL('../', import.meta.url);

/** The version of this package, as its package.json says. */
export function version(): string {
  const file = new URL('package.json', PACKAGE);
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }).version;
}

/**
 * How much garbage V8 lets accumulate before it collects the whole heap: twice what was alive the
 * last time. By default it collects after 10 MB of new bodies, which costs a busy gateway a fifth
 * of its CPU; live data is some 30 MB plus half a KB for each file in the cache.
 */
export const HEAP_GROWTH = '--heap-growing-percent=200';

/**
 * A closed terminal ends a gateway as SIGTERM does: Node resets SIGHUP, so `nohup` alone would not
 * keep it.
 */
export const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
