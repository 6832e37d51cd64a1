import { join } from 'node:path';
import {
  defineConfig,
  type TestProjectInlineConfiguration,
  type ViteUserConfig,
} from 'vitest/config';
import { PROJECTS, type Project } from './tools/projects.js';

const GUARDS: Readonly<Record<string, readonly string[]>> = {
  unit: ['no-processes.ts', 'no-sockets.ts'],
  server: ['no-processes.ts'],
};

const SETUP: Readonly<Record<string, string>> = { packages: 'packing.ts' };

/** One after the other, so that each has a time of its own. */
function configOf({ name, workers }: Project, index: number): TestProjectInlineConfiguration {
  const guards = GUARDS[name] ?? [];
  const support = join(import.meta.dirname, 'support');
  return {
    extends: true,
    test: {
      name,
      include: [`${name}/**/*.test.ts`],
      setupFiles: guards.map((file) => join(support, 'guards', file)),
      globalSetup: [SETUP[name] ?? []].flat().map((file) => join(support, file)),
      maxWorkers: workers,
      sequence: { groupOrder: index + 1 },
    },
  };
}

export const common: ViteUserConfig['test'] = {
  root: import.meta.dirname,
  exclude: ['dist/**', 'node_modules/**'],
  pool: 'forks',
  // What is built is imported as Node does it, not transformed once more for each file of tests.
  server: { deps: { external: [/\/(?:packages\/[^/]+|gateway|bench)\/dist\//] } },
  // The files of one worker share their modules: each would load the product for half a second.
  isolate: false,
  testTimeout: 60_000,
  hookTimeout: 60_000,
  // A busy machine takes longer than the second that is usual.
  expect: { poll: { timeout: 30_000 } },
};

export default defineConfig({
  test: { ...common, projects: PROJECTS.map(configOf) },
});
