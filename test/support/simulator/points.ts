import { expect } from 'vitest';
import { Random } from '../random.js';
import { inParallel } from './parallel.js';
import { differentOf, CRASH_SEED as SEED, sampleOf } from './sample.js';
import type { AnyScript, AnySubject, Crash } from './subject.js';

/**
 * Every crash point of small histories: what outlives a crash before and after each of their
 * operations is kept while a history runs. From each of them the host is started again as after a
 * kill and as after power failures; then it goes on, restarts, and crashes once more. At each step
 * what was acknowledged must be there.
 */

interface Point {
  readonly what: string;
  readonly state: unknown;
  readonly random: () => Random;
}

export interface PointCounts {
  readonly points: number;
  readonly starts: number;
}

/** Of a small share of the crashes, not each state is kept: that would take most of the time. */
const KEPT_OF_SHARE = 10;

/** Tries a share of the crashes; gives how many there are, of the points that were kept. */
export async function tryPoints(
  subject: AnySubject,
  script: AnyScript,
  share: number,
): Promise<PointCounts> {
  const kept = Math.min(1, share * KEPT_OF_SHARE);
  const points = await record(subject, script, kept);
  const all = points.flatMap((point) =>
    subject.crashes.map((crash: Crash) => ({ point, crash })),
  ) as { point: Point; crash: Crash }[];
  const different = differentOf(all, ({ point, crash }) =>
    subject.situation(point.state, crash, point.random()),
  );
  await inParallel(sampleOf(different, share / kept), subject.atATime, ({ point, crash }) =>
    recover(subject, script, point, crash),
  );
  return { points: points.length, starts: different.length };
}

async function record(subject: AnySubject, script: AnyScript, kept: number): Promise<Point[]> {
  const host = subject.host(script.options, new Random(SEED));
  const points: Point[] = [];
  const choice = new Random(SEED);
  let count = 0;
  host.onPoint = (what: string) => {
    count += 1;
    if (choice.next() >= kept) return;
    const { version } = host;
    points.push({
      what: `${count}, ${what}`,
      state: subject.state(host),
      random: () => new Random(SEED + version),
    });
  };
  try {
    await host.start();
    // The start is the same for all of them.
    if (script !== subject.scripts[0]) points.length = 0;
    await script.run(host);
    await host.close();
    expect(host.disk.openFiles, 'open files').toBe(0);
  } finally {
    host.onPoint = () => undefined;
    await host.dispose();
  }
  return points;
}

async function recover(
  subject: AnySubject,
  script: AnyScript,
  point: Point,
  crash: Crash,
): Promise<void> {
  const host = subject.after(point.state, script.options, crash, point.random());
  let last: typeof host | undefined;
  let step = 'starting';
  try {
    await host.start();
    step = 'the first look';
    await host.started('all', crash);
    step = 'going on';
    await host.goOn();
    step = 'the audit';
    await host.audit();
    step = 'the restart';
    await host.close();
    expect(host.disk.openFiles, 'open files').toBe(0);
    await host.start();
    await host.started('none');
    step = 'a second crash';
    const again = subject.crashes.find(({ mode }: Crash) => mode === 'lost')!;
    last = subject.after(subject.state(host), script.options, again, point.random());
    await last.start();
    await last.started('all', again);
  } catch (error) {
    const where = `${script.name}; point ${point.what}; ${JSON.stringify(crash)}; seed ${SEED}`;
    throw new Error(`${where}: ${step}: ${(error as Error).message}`, { cause: error });
  } finally {
    await host.dispose();
    await last?.dispose();
  }
}
