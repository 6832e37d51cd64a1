import { expect, test, vi } from 'vitest';
import { benchmarks } from '../../../bench/dist/benchmarks.js';
import { parseArguments } from '../../../bench/dist/harness/arguments.js';
import type { Benchmark, Scale } from '../../../bench/dist/harness/benchmark.js';
import { atLeast, atMost, medianOf } from '../../../bench/dist/harness/goals.js';
import { runBenchmark } from '../../../bench/dist/harness/report.js';
import { temporaryFolder } from '../../support/temporary.js';

const OF_TWO_PARTS: Benchmark = {
  durability: 'none',
  introduce: () => 'What an example is.',
  parts: () => ({
    broken: {
      goals: [atLeast('first', 'the first goal', 1, medianOf('first'))],
      run: () => Promise.reject(new Error('there is no disk')),
    },
    sound: {
      goals: [
        atLeast('second', 'the second goal', 2, medianOf('second')),
        atMost('third', 'the third goal', 2, medianOf('third')),
      ],
      run: async ({ figures }) => figures.add('second', 'times', 1),
    },
  }),
};

async function run(parts?: readonly string[]) {
  const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  try {
    const report = await runBenchmark('example', OF_TWO_PARTS, {
      ...{ scale: 'smoke', servers: [], parts },
      ...{ directory: temporaryFolder(), out: temporaryFolder() },
    });
    return { report, printed: written.mock.calls.map(([text]) => text).join('') };
  } finally {
    vi.restoreAllMocks();
  }
}

test('a report has every goal, whatever was measured', async () => {
  const { report, printed } = await run();
  expect(report.goals).toEqual([
    { id: 'first', goal: 'the first goal', value: null, met: false },
    { id: 'second', goal: 'the second goal', value: 1, met: false },
    { id: 'third', goal: 'the third goal', value: null, met: false },
  ]);
  expect(report.failures).toEqual([
    'broken: there is no disk',
    'goal first was not measured: there is no figure first',
    'goal third was not measured: there is no figure third',
  ]);
  expect(printed).toContain('**broken failed**: there is no disk');
  expect(printed).toMatch(/the second goal +\| +1.00 \| +\*\*not met\*\*/);
  expect(printed).toMatch(/the third goal +\| +\| +\*\*not measured\*\*/);
});

test('a part that is not run has no goals to judge, and an unknown one is refused', async () => {
  const { report } = await run(['sound']);
  expect(report.goals.map(({ id }) => id)).toEqual(['second', 'third']);
  await expect(run(['none'])).rejects.toThrow('has no part "none"; there are: broken, sound');
});

test.each(Object.entries(benchmarks))(
  '%s has the same goals at every scale',
  async (_, { load }) => {
    const benchmark: Benchmark = await load();
    const idsAt = (scale: Scale) =>
      Object.values(benchmark.parts(scale, [])).flatMap(({ goals }) => goals.map(({ id }) => id));
    const ids = idsAt('full');
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length).toBeGreaterThan(0);
    expect(idsAt('quick')).toEqual(ids);
    expect(idsAt('smoke')).toEqual(ids);
  },
);

test('a run is quick or a smoke test, not both', () => {
  expect(parseArguments(['--smoke'], ['one']).scale).toBe('smoke');
  expect(() => parseArguments(['--quick', '--smoke'], ['one'])).toThrow('not both');
});
