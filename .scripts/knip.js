/**
 * What knip is to find: files, exports and dependencies that nothing uses, and, with
 * `--production`, code of the product that only tests and benchmarks use.
 */

const isProduction = process.argv.includes('--production');
/** Nobody but this workspace imports them, so what they export has to be used here. */
const inner = { project: ['src/**/*.ts!'], includeEntryExports: true };

export default {
  workspaces: {
    '.': {
      entry: ['.scripts/*.mjs', '.ci/*.mjs'],
      project: ['.scripts/*.mjs', '.ci/*.mjs'],
      // For `npx stevedore`.
      ignoreDependencies: ['@stevedore/gateway'],
    },
    'packages/*': { project: ['src/**/*.ts!'] },
    'packages/async': inner,
    'packages/cache': inner,
    'packages/disk': inner,
    'packages/protocol': inner,
    'packages/staging': inner,
    'packages/pictures': { entry: ['src/encoder.ts!'], project: ['src/**/*.ts!'] },
    'packages/storage': inner,
    'packages/tiering': inner,
    'packages/tracker': inner,
    'packages/wire': inner,
    gateway: {
      entry: ['src/main.ts!', 'console/*.js!'],
      project: ['src/**/*.ts!', 'console/*.js!'],
      // A module of @stevedore/browser, and uPlot, as the gateway serves them.
      ignoreUnresolved: ['./lib/index.js', './lib/uplot.js'],
      // light-my-request: of Fastify's, the last version that needs no later Node than ours.
      ignoreDependencies: ['uplot', 'light-my-request'],
    },
    bench: {
      entry: ['src/main.ts', 'src/**/*-process.ts'],
      project: ['src/**/*.ts'],
      // fdfs has no types and is loaded by `require`; sharp is that of @stevedore/pictures.
      ignoreDependencies: ['fdfs'],
    },
    examples: { entry: ['src/**/*.ts'], project: ['src/**/*.ts'] },
    test: {
      entry: [
        '**/*.test.ts',
        '**/*.test-d.ts',
        '**/*-process.ts',
        'tools/{run,report,mutants}.ts',
        'support/guards/*.ts',
      ],
      project: ['**/*.ts'],
      // Loaded by name: the types of two of them would bring a browser's globals, and one is run
      // in a browser.
      ignoreDependencies: ['fdfs', '@uppy/core', '@uppy/tus', 'axe-core'],
    },
  },
  exclude: isProduction ? ['duplicates', 'types', 'dependencies'] : ['duplicates'],
  // A test may look at a constant that its module uses itself.
  ignoreExportsUsedInFile: isProduction || { interface: true, type: true },
  ignoreBinaries: ['nginx', 'pgbouncer', 'postgres', 'script'],
};
