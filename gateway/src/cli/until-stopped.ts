/**
 * SIGTERM and SIGINT: finishes requests in progress and exits with 0 within a time limit, whatever
 * still hangs, because acknowledged files are safe on disk. A second signal exits at once.
 */

const STOP_WITHIN_MS = 9500;
const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/**
 * Resolves at the first signal. Call it before starting anything: a program that waits for the
 * ready line may send a signal at once.
 */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let first = true;
    for (const name of SIGNALS) {
      process.on(name, (signal) => {
        if (!first) process.exit(130);
        first = false;
        process.stderr.write(`${signal}: finishing requests in progress\n`);
        resolve(signal);
      });
    }
  });
}

export async function untilStopped(
  stopped: Promise<NodeJS.Signals>,
  close: () => Promise<void>,
): Promise<never> {
  await stopped;
  setTimeout(() => {
    process.stderr.write('stopped before all work was done; it resumes at the next start\n');
    process.exit(0);
  }, STOP_WITHIN_MS);
  await close();
  process.exit(0);
}
