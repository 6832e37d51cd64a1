import { openForUpkeep, storeOptions, type Upkeep } from '@stevedore/client';
import type { Command } from 'commander';
import { gatewayOptions, openOptions, parseGatewayOptions } from '../options.js';
import { readConfigFile } from './config-file.js';
import { explain } from './explain.js';
import { addOptionFlags, givenFlags } from './option-flags.js';

/** What `fsck`, `scrub` and `rebuild` share: they work on a directory no gateway has. */

export interface Bar {
  update(done: number, all: number): void;
  stop(): void;
}

/** The options of the store, with the defaults of the gateway that owns the directory. */
export function addStoreFlags(command: Command): Command {
  addOptionFlags(command, storeOptions);
  return command;
}

export function storeOptionsOf(command: Command) {
  const options = parseGatewayOptions({
    flags: givenFlags(command, gatewayOptions),
    environment: process.env,
    file: readConfigFile(),
  });
  return openOptions(options);
}

export async function withUpkeep(
  command: Command,
  bar: Bar,
  work: (upkeep: Upkeep) => Promise<void>,
): Promise<void> {
  const upkeep = await openForUpkeep(storeOptionsOf(command), {
    onRebuild: (done, all) => bar.update(done, all),
    onError: (error) => process.stderr.write(`warning: ${explain(error)}\n`),
  });
  try {
    await work(upkeep);
  } finally {
    bar.stop();
    await upkeep.close();
  }
}

/** A bar on stderr while somebody watches; nothing otherwise. */
export async function startBar(label: string): Promise<Bar> {
  if (!process.stderr.isTTY) return { update: () => {}, stop: () => {} };
  const { default: progress } = await import('cli-progress');
  const bar = new progress.SingleBar({
    format: `${label} {bar} {percentage}%, {eta_formatted} left`,
    stream: process.stderr,
    hideCursor: true,
    clearOnComplete: true,
  });
  let started = false;
  return {
    update: (done, all) => {
      if (!started) bar.start(Math.max(all, 1), 0);
      started = true;
      bar.setTotal(Math.max(all, 1));
      bar.update(done);
    },
    stop: () => {
      if (started) bar.stop();
    },
  };
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
