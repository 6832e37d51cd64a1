import * as childProcess from 'node:child_process';

/**
 * Node's synchronous calls, with a time limit: nothing else can end a test that waits in one of
 * them, neither the limits of tests nor a signal.
 */

const LIMIT = { timeout: 300_000, killSignal: 'SIGKILL' } as const;

type Options = childProcess.ExecFileSyncOptions;

export const execFileSync = ((file: string, args: readonly string[], options?: Options) =>
  childProcess.execFileSync(file, args, {
    ...LIMIT,
    ...options,
  })) as typeof childProcess.execFileSync;

export const spawnSync = ((file: string, args: readonly string[], options?: Options) =>
  childProcess.spawnSync(file, args, { ...LIMIT, ...options })) as typeof childProcess.spawnSync;
