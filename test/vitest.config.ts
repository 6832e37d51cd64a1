import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** They take minutes each: begun last, one would run alone at the end. */
const LONGEST = [
  'staging/crash-faults.test.ts',
  'staging/crash-histories.test.ts',
  'staging/crash-points.test.ts',
  'crash/kills.test.ts',
  'e2e/drill.test.ts',
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}`));
      return at < 0 ? LONGEST.length : at;
    };
    return (await super.sort(files)).toSorted((one, other) => place(one) - place(other));
  }
}

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
    // What is built is imported as Node does it, not transformed once more for each file of tests.
    server: { deps: { external: [/\/(?:packages\/[^/]+|gateway|bench)\/dist\//] } },
    maxWorkers: 2,
    // The files of one worker share their modules: each would load the product for half a second.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
