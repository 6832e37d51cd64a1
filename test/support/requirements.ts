import { spawnSync } from './child-process.js';

/**
 * Tests that need a program which may be missing. Missing: said in one line, and
 * the test is skipped; in CI that is a failure instead.
 */
export function requirement(what: string, isThere: () => boolean): { readonly missing: boolean } {
  if (isThere()) return { missing: false };
  if (process.env.CI) throw new Error(`${what} is needed in CI and is not there`);
  console.warn(`skipped: ${what} is not there`);
  return { missing: true };
}

export function hasCommand(command: string, ...args: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

/** The Python that has the packages of the interop suite; .ci/run sets it up. */
export const python = process.env.TEST_PYTHON ?? 'python3';
