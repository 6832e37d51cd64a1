import type { Reporter, TestModule } from 'vitest/node';

/**
 * A reporter of vitest: a line for each project when its last file has ended, with its time, and
 * the counts for whoever runs vitest. Ends the run where a file does not end, and says which: the
 * time limits of tests and hooks do not see a worker that blocks its thread.
 */

export interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

const isWhole = process.env.STEVEDORE_TEST_CRASH_SHARE === '1';
const FILE_MINUTES =
  (isWhole ? 120 : 16) + 3 * Number(process.env.STEVEDORE_TEST_DRILL_MINUTES ?? 0);
const LOOK_MS = 10_000;

interface Progress extends Counts {
  waiting: number;
  readonly begun: number;
}

export default class Report implements Reporter {
  readonly #projects = new Map<string, Progress>();
  readonly #underWay = new Map<string, number>();

  onTestRunStart(specifications: readonly { readonly project: { readonly name: string } }[]): void {
    for (const { project } of specifications) {
      const known = this.#projects.get(project.name);
      if (known) known.waiting += 1;
      else this.#projects.set(project.name, { ...none(), waiting: 1, begun: 0 });
    }
    setInterval(() => this.#look(), LOOK_MS).unref();
  }

  onTestModuleQueued({ moduleId, project }: TestModule): void {
    this.#underWay.set(moduleId, performance.now());
    const progress = this.#projects.get(project.name)!;
    if (progress.begun === 0) Object.assign(progress, { begun: performance.now() });
  }

  onTestModuleEnd(module: TestModule): void {
    this.#underWay.delete(module.moduleId);
    const { name } = module.project;
    const progress = this.#projects.get(name)!;
    add(progress, countsOf(module));
    progress.waiting -= 1;
    if (progress.waiting > 0) return;
    const { passed, failed, skipped, begun } = progress;
    const seconds = Math.round((performance.now() - begun) / 1000);
    const others = `${failed > 0 ? `, ${failed} failed` : ''}${skipped > 0 ? `, ${skipped} skipped` : ''}`;
    console.log(`${name.padEnd(9)}${String(passed).padStart(5)} passed${others} in ${seconds} s`);
  }

  onTestRunEnd(_modules: unknown, errors: readonly unknown[]): void {
    const sum = none();
    for (const progress of this.#projects.values()) add(sum, progress);
    sum.failed += errors.length;
    process.send?.(sum);
  }

  #look(): void {
    const limit = performance.now() - FILE_MINUTES * 60_000;
    const late = [...this.#underWay].filter(([, begun]) => begun < limit);
    if (late.length === 0) return;
    for (const [name] of late)
      console.error(` FAIL  ${name} has not ended in ${FILE_MINUTES} minutes`);
    process.exit(1);
  }
}

/** A file that fails to load has no failed test of its own. */
function countsOf(module: TestModule): Counts {
  const counts = none();
  for (const test of module.children.allTests()) {
    const { state } = test.result();
    if (state === 'passed') counts.passed += 1;
    else if (state === 'failed') counts.failed += 1;
    else counts.skipped += 1;
  }
  if (counts.failed === 0 && module.state() === 'failed') counts.failed = 1;
  return counts;
}

function none(): Counts {
  return { passed: 0, failed: 0, skipped: 0 };
}

function add(sum: Counts, { passed, failed, skipped }: Counts): void {
  sum.passed += passed;
  sum.failed += failed;
  sum.skipped += skipped;
}
