import { spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * Runs a Node program in a process group of its own, and resolves with its exit code. What it leaves
 * behind ends with it, and holds no pipe open.
 */
export async function runInGroup(args, cwd) {
  const child = spawn(process.execPath, args, { cwd, stdio: 'inherit', detached: true });
  const end = (signal) => {
    try {
      process.kill(-child.pid, signal);
    } catch {
      // All have ended.
    }
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => end(signal));
  const [code] = await once(child, 'exit');
  end('SIGKILL');
  return code ?? 1;
}
