import type { SeededRandom } from '../../harness/seeded-random.js';
import type { TimedRequest, Workload } from './workload.js';

/**
 * The paper's metadata workload (section 5.1, Table 2): ϕ accesses φ apart, steady
 * and burst in turns, repeated; every request writes an entry of 1 KB.
 */

export interface Phase {
  /** ϕ. */
  readonly accesses: number;
  /** φ. */
  readonly intervalMs: number;
}

export interface MetadataTraceOptions {
  readonly phases: readonly Phase[];
  readonly repetitions: number;
  readonly entryBytes: number;
  /** 0: as the paper has it, evenly spaced; 1: intervals are exponentially distributed. */
  readonly irregularity: number;
  /** How much the number of accesses of a phase may differ, up or down, as a share of it. */
  readonly phaseJitter: number;
}

export const paperMetadataTrace: MetadataTraceOptions = Object.freeze({
  phases: [
    { accesses: 5000, intervalMs: 1 },
    { accesses: 10_000, intervalMs: 0.1 },
  ],
  repetitions: 1000,
  entryBytes: 1024,
  irregularity: 0,
  phaseJitter: 0,
});

export function metadataTrace(options: MetadataTraceOptions, random: SeededRandom): Workload {
  return { arrivals: () => arrivals(options, random) };
}

function* arrivals(
  { phases, repetitions, entryBytes, irregularity, phaseJitter }: MetadataTraceOptions,
  random: SeededRandom,
): Generator<TimedRequest, undefined> {
  const request = {
    class: 'metadata',
    bytes: entryBytes,
    file: '',
    fileBytes: 0,
    write: true,
  } as const;
  let atMs = 0;
  for (let repetition = 0; repetition < repetitions; repetition += 1) {
    for (const { accesses, intervalMs } of phases) {
      const differs = phaseJitter > 0 ? phaseJitter * (2 * random.next() - 1) : 0;
      const count = Math.round(accesses * (1 + differs));
      for (let access = 0; access < count; access += 1) {
        yield { atMs, request };
        const irregular = irregularity > 0 ? irregularity * random.exponential(intervalMs) : 0;
        atMs += (1 - irregularity) * intervalMs + irregular;
      }
    }
  }
}
