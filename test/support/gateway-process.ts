import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import { ROOT } from './paths.js';
import { readyAddress } from './ready.js';

/** The gateway, started as a user starts it. */
export interface GatewayProcess {
  readonly url: string;
  /** Port of the embedded tracker. */
  readonly trackerPort: number;
  readonly child: ChildProcess;
  readonly output: readonly string[];
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
}

export const COMMAND = join(ROOT, 'gateway/dist/main.js');

/** Ends with the test. */
export async function startGatewayProcess(
  directory: string,
  ...flags: string[]
): Promise<GatewayProcess> {
  return await launch(directory, flags, onTestFinished);
}

/** Ends when it is stopped: for the tests of a file that share it. */
export async function launchGatewayProcess(
  directory: string,
  ...flags: string[]
): Promise<GatewayProcess> {
  return await launch(directory, flags, () => undefined);
}

async function launch(
  directory: string,
  flags: readonly string[],
  atTheEnd: (work: () => Promise<void>) => void,
): Promise<GatewayProcess> {
  const args = ['gateway', '--directory', directory, '--port', '0'];
  const ports = ['--tracker-port', '0', '--storage-port', '0', '--id-max-age', '0'];
  const child = spawn(process.execPath, [COMMAND, ...args, ...ports, ...flags], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  atTheEnd(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const output: string[] = [];
  const ready = new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout! }).on('line', (line) => {
      output.push(line);
      const address = readyAddress(line);
      if (address !== undefined) resolve(address);
    });
    exited.then((code) => reject(new Error(`the gateway ended with code ${code}`)));
  });
  const url = await ready;
  const tracker = output.map((line) => /tracker 127\.0\.0\.1:(\d+)/.exec(line)?.[1]).find(Boolean);
  return {
    url,
    trackerPort: Number(tracker),
    child,
    output,
    stop() {
      child.kill('SIGTERM');
      return exited;
    },
  };
}
