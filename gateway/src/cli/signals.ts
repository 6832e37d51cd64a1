import { isError } from '@stevedore/protocol';
import type { Note } from '../observe/log-format.js';
import { STOP_SIGNALS } from '../program.js';
import { EXIT_FAILED } from './errors.js';
import { clearLine } from './progress.js';

/**
 * What ends a command. A daemon finishes requests in progress and exits with 0 within a time limit,
 * whatever still hangs, because acknowledged files are safe on disk. Any other command stops, says
 * how far it got, and ends by the signal, so that a loop around it ends too. A second signal ends
 * either at once.
 */

const STOP_WITHIN_MS = 9500;

/**
 * Of a daemon: resolves at the first signal. Call it before starting anything: a program that waits
 * for the ready line may send a signal at once.
 */
export function stopSignal(note: Note): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let first = true;
    for (const name of STOP_SIGNALS) {
      process.on(name, (signal) => {
        if (!first) process.exit(130);
        first = false;
        note('info', `${signal}: finishing requests in progress`);
        resolve(signal);
      });
    }
  });
}

interface Daemon {
  /** Says that it runs. */
  readonly announce: () => void | Promise<void>;
  readonly close: () => Promise<void>;
  /** Resolves if it cannot go on. */
  readonly refused?: Promise<Error>;
}

/** Of a daemon that has started. It ends with the process, or with an error once it is closed. */
export async function untilStopped(
  stopped: Promise<NodeJS.Signals>,
  { announce, close, refused }: Daemon,
  note: Note,
): Promise<never> {
  try {
    await announce();
    const end = await (refused ? Promise.race([refused, stopped]) : stopped);
    if (isError(end)) throw end;
  } catch (error) {
    setTimeout(() => process.exit(EXIT_FAILED), STOP_WITHIN_MS).unref();
    await close();
    throw error;
  }
  setTimeout(() => {
    note('info', 'stopped before all work was done; it resumes at the next start');
    process.exit(0);
  }, STOP_WITHIN_MS);
  await close();
  process.exit(0);
}

/** Receives what says how far the command got. It is called once, at the end or a second signal. */
export type AtEnd = (say: () => void) => void;

/** Errors of `work` after a signal are its consequence and not reported. */
export async function interruptible(
  work: (stopped: AbortSignal, atEnd: AtEnd) => Promise<void>,
): Promise<void> {
  const controller = new AbortController();
  let received: NodeJS.Signals | undefined;
  let say: (() => void) | undefined;
  const end = (): void => {
    const last = say;
    say = undefined;
    last?.();
  };
  const endBy = (signal: NodeJS.Signals): void => {
    for (const name of STOP_SIGNALS) process.off(name, stop);
    process.kill(process.pid, signal);
  };
  const stop = (signal: NodeJS.Signals): void => {
    clearLine();
    controller.abort();
    if (received) {
      end();
      endBy(signal);
    }
    received = signal;
  };
  for (const name of STOP_SIGNALS) process.on(name, stop);
  try {
    await work(controller.signal, (given) => {
      say = given;
    });
  } catch (error) {
    if (!received) throw error;
  } finally {
    end();
  }
  if (received) endBy(received);
  for (const name of STOP_SIGNALS) process.off(name, stop);
}
