import { readFileSync } from 'node:fs';

/** The files of this package beside its modules. Modules of the published package lie in one folder. */
export const PACKAGE = new URL('../', import.meta.url);

/** The version of this package, as its package.json says. */
export function version(): string {
  const text = readFileSync(new URL('package.json', PACKAGE), 'utf8');
  return (JSON.parse(text) as { readonly version: string }).version;
}
