import { defineConfig } from 'vitest/config';

/**
 * Tests mirror the packages: test/<package>/<module>.test.ts. Those of the
 * `interop` folder talk to other people's programs and say so when one is missing.
 */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['**/*.test.ts'],
    exclude: ['dist/**', 'node_modules/**'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
