import { onTestFinished } from 'vitest';
import { Daemon } from './kills/cluster.js';

/** Starts daemons in a folder, one behind the other, until the test ends. */
export function daemonsIn(folder: string): (args: readonly string[]) => Promise<Daemon> {
  const daemons: Daemon[] = [];
  onTestFinished(async () => {
    for (const daemon of daemons) await daemon.kill();
  });
  return async (args) => {
    const daemon = new Daemon(folder, () => args);
    daemons.push(daemon);
    daemon.start();
    await daemon.ready();
    return daemon;
  };
}
