/**
 * SIGTERM and SIGINT: what is under way is finished, and the process exits with
 * 0 within a bound whatever still hangs: what was acknowledged is safe on disk
 * by contract. A second signal ends at once.
 */

const STOP_WITHIN_MS = 9500;
const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/**
 * Resolves at the first signal. To be called before anything is started: who
 * waits for the ready line may send one with its last byte.
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
