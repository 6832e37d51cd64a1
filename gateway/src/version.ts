import { readFileSync } from 'node:fs';

/** The version of this package, as its package.json says. */
export function version(): string {
  const file = new URL('../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }).version;
}
