/**
 * A reporter of vitest: ends the run where a file of tests does not end, and says which. The time
 * limits of tests and hooks do not see a worker that blocks its thread.
 */

const FILE_MINUTES = 16 + 3 * Number(process.env.STEVEDORE_TEST_DRILL_MINUTES ?? 0);

export default class Unended {
  #begun = new Map();

  onTestRunStart() {
    const timer = setInterval(() => this.#look(), 10_000);
    timer.unref();
  }

  onTestModuleQueued({ moduleId }) {
    this.#begun.set(moduleId, performance.now());
  }

  onTestModuleEnd({ moduleId }) {
    this.#begun.delete(moduleId);
  }

  #look() {
    const limit = performance.now() - FILE_MINUTES * 60_000;
    const late = [...this.#begun].filter(([, at]) => at < limit).map(([moduleId]) => moduleId);
    if (late.length === 0) return;
    for (const name of late)
      console.error(` FAIL  ${name} has not ended in ${FILE_MINUTES} minutes`);
    process.exit(1);
  }
}
