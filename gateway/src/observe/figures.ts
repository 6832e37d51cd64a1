import { Counter, Gauge, type Registry } from 'prom-client';

/** Figures for Prometheus that are read from a source when they are asked for. */

export interface Figure<Source> {
  readonly name: string;
  readonly help: string;
  readonly of: (source: Source) => number;
}

export interface Figures<Source> {
  /** What there is now. */
  readonly gauges: readonly [Figure<Source>, ...Figure<Source>[]];
  /** What was done since the start. */
  readonly counters: readonly Figure<Source>[];
}

/** Adds them to the registry; one look at the source serves all of them. */
export function addFigures<Source>(
  registry: Registry,
  figures: Figures<Source>,
  look: () => Source,
): void {
  const registers = [registry];
  const gauges = figures.gauges.map(({ name, help, of }) => ({
    of,
    gauge: new Gauge({ name, help, registers }),
  }));
  const counters = figures.counters.map(({ name, help, of }) => ({
    of,
    counter: new Counter({ name, help, registers }),
  }));
  const first = gauges[0]!.gauge as unknown as { collect: () => void };
  first.collect = () => {
    const source = look();
    for (const { gauge, of } of gauges) gauge.set(of(source));
    for (const { counter, of } of counters) {
      counter.reset();
      counter.inc(of(source));
    }
  };
}
