/**
 * Runs until SIGTERM or SIGINT, then closes, and exits with 0 within a bound
 * whatever still hangs: what was acknowledged is safe on disk by contract. A
 * second signal ends at once.
 */

const STOP_WITHIN_MS = 9500;

export async function untilStopped(close: () => Promise<void>): Promise<never> {
  const signal = await new Promise<NodeJS.Signals>((resolve) => {
    process.once('SIGTERM', resolve);
    process.once('SIGINT', resolve);
  });
  for (const again of ['SIGTERM', 'SIGINT'] as const) process.once(again, () => process.exit(130));
  process.stderr.write(`${signal}: finishing what is under way\n`);
  setTimeout(() => {
    process.stderr.write('stopped with work under way; it resumes at the next start\n');
    process.exit(0);
  }, STOP_WITHIN_MS).unref();
  await close();
  process.exit(0);
}
