import type { Call, Reply } from './child.js';
import { cpuUsed } from './process-cpu.js';

/**
 * The child's end: loads the module that is named, answers the parent's calls with what it exports,
 * and ends when the parent lets go of it, in whatever way.
 */

/** What cannot be closed in this time is let go. */
const CLOSE_LIMIT_MS = 8_000;

type Handlers = Readonly<Record<string, (...given: readonly unknown[]) => unknown>>;

const module: Promise<Handlers> = import(process.argv[2] ?? '');
const own: Handlers = { cpu: cpuUsed, rss: () => process.memoryUsage.rss() };
// A call's answer is its error then.
module.catch(() => undefined);

async function answer({ id, name, given }: Call): Promise<Reply> {
  try {
    const handler = own[name] ?? (await module)[name];
    if (!handler) throw new Error(`nothing is called ${name}`);
    return { id, result: await handler(...given) };
  } catch (error) {
    return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

process.on('message', async (call: Call) => {
  const reply = await answer(call);
  if (process.connected) process.send?.(reply);
});
process.once('disconnect', () => {
  setTimeout(() => process.exit(1), CLOSE_LIMIT_MS);
  void module.then(({ close }) => close?.()).finally(() => process.exit(0));
});
// The terminal interrupts the whole group; the parent decides when a child ends.
process.on('SIGINT', () => {});
