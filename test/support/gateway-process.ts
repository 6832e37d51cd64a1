import type { ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { Running } from './cli/run.js';
import { ROOT } from './paths.js';
import { ofSuite, ofTest } from './temporary.js';

/** The gateway, started as a user starts it. */
export interface GatewayProcess {
  readonly url: string;
  /** Port of the embedded tracker. */
  readonly trackerPort: number;
  readonly child: ChildProcess;
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
}

export const COMMAND = join(ROOT, 'gateway/dist/main.js');

/** Ends with the test. */
export const startGatewayProcess = (directory: string, ...flags: string[]) =>
  launch(directory, flags, ofTest);

/** For the tests of a suite that share it. */
export const launchGatewayProcess = (directory: string, ...flags: string[]) =>
  launch(directory, flags, ofSuite);

async function launch(
  directory: string,
  flags: readonly string[],
  atTheEnd: typeof ofTest,
): Promise<GatewayProcess> {
  const args = ['gateway', '--directory', directory, '--port', '0'];
  const ports = ['--tracker-port', '0', '--storage-port', '0', '--id-max-age', '0'];
  const program = [process.execPath, COMMAND];
  const running = new Running([...args, ...ports, ...flags], { program, atTheEnd });
  const url = await running.ready();
  const trackerPort = Number(/tracker 127\.0\.0\.1:(\d+)/.exec(running.stdout)?.[1]);
  const stop = async () => {
    running.process.kill('SIGTERM');
    return (await running.result()).code;
  };
  return { url, trackerPort, child: running.process, stop };
}
