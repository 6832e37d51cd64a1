import type { Call, Handlers, Reply } from './child.js';
import { cpuUsed } from './process-cpu.js';

/**
 * Processes of a benchmark: the child's end. Answers the parent's calls and ends
 * when the parent lets go of it, in whatever way.
 */

/** What cannot be closed in this time is let go. */
const CLOSE_LIMIT_MS = 8_000;

export function serve(handlers: Handlers, close: () => unknown = () => undefined): void {
  const all: Handlers = { ...handlers, cpu: cpuUsed, rss: () => process.memoryUsage.rss() };
  process.on('message', (call: Call) => {
    void answer(all, call).then((reply) => {
      if (process.connected) process.send?.(reply);
    });
  });
  process.once('disconnect', () => {
    setTimeout(() => process.exit(1), CLOSE_LIMIT_MS);
    void Promise.resolve(close()).finally(() => process.exit(0));
  });
  // The terminal interrupts the whole group; the parent decides when a child ends.
  process.on('SIGINT', () => {});
}

async function answer(handlers: Handlers, { id, name, argument }: Call): Promise<Reply> {
  try {
    const handler = handlers[name];
    if (!handler) throw new Error(`nothing is called ${name}`);
    return { id, result: await handler(argument as never) };
  } catch (error) {
    return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
