import { type Serializable, spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * Runs a Node program in a process group of its own, and resolves with its exit code. What it leaves
 * behind ends with it, and holds no pipe open.
 */
export async function runInGroup(
  args: readonly string[],
  cwd: string,
  onMessage: (message: Serializable) => void = () => undefined,
): Promise<number> {
  const child = spawn(process.execPath, args, {
    cwd,
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    detached: true,
  });
  child.on('message', onMessage);
  const end = (signal: NodeJS.Signals): void => {
    try {
      process.kill(-child.pid!, signal);
    } catch {
      // All have ended.
    }
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => end(signal));
  const [code] = (await once(child, 'exit')) as [number | null];
  end('SIGKILL');
  return code ?? 1;
}
