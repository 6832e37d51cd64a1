/**
 * Ctrl-C, and the end of a terminal or a service: the command stops, says how far it got, and ends
 * by the signal, so that a loop around it ends too. A second signal ends it at once.
 */

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** A terminal shows ^C where the cursor is. */
const CLEAR_LINE = '\r\x1b[K';

/** Errors of `work` after a signal are its consequence and not reported. */
export async function interruptible(work: (stopped: AbortSignal) => Promise<void>): Promise<void> {
  const controller = new AbortController();
  let received: NodeJS.Signals | undefined;
  const stop = (signal: NodeJS.Signals): void => {
    forget();
    received = signal;
    if (process.stderr.isTTY) process.stderr.write(CLEAR_LINE);
    controller.abort();
  };
  const forget = (): void => {
    for (const signal of SIGNALS) process.off(signal, stop);
  };
  for (const signal of SIGNALS) process.on(signal, stop);
  try {
    await work(controller.signal);
  } catch (error) {
    if (!received) throw error;
  }
  forget();
  if (received) process.kill(process.pid, received);
}
