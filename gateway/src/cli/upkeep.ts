import { openForUpkeep, storeOptions, type Upkeep } from '@stevedore/client';
import type { Command } from 'commander';
import { gatewayOptions, openOptions, parseGatewayOptions } from '../options.js';
import { readConfigFile } from './config-file.js';
import { explain } from './explain.js';
import { addOptionFlags, givenFlags } from './option-flags.js';
import type { Progress } from './progress.js';

/** What `fsck`, `scrub` and `rebuild` share: they work on a directory no gateway has. */

/**
 * The options of the gateway that owns the directory, but the ports of the embedded node
 * are free ones: no other program uses that node, and the usual ports may be taken.
 */
const { trackerPort, storagePort } = storeOptions;
const upkeepOptions = { ...gatewayOptions, trackerPort, storagePort };

export function addStoreFlags(command: Command): Command {
  addOptionFlags(command, storeOptions);
  return command;
}

export function storeOptionsOf(command: Command) {
  const sources = {
    flags: givenFlags(command, storeOptions),
    environment: process.env,
    file: readConfigFile(),
  };
  return openOptions(parseGatewayOptions(sources, upkeepOptions));
}

export async function withUpkeep(
  command: Command,
  progress: Progress,
  work: (upkeep: Upkeep) => Promise<void>,
): Promise<void> {
  const upkeep = await openForUpkeep(storeOptionsOf(command), {
    onRebuild: (done, all) => progress.update(done, all),
    onError: (error) => progress.warn(`warning: ${explain(error)}`),
  });
  try {
    await work(upkeep);
  } finally {
    progress.stop();
    await upkeep.close();
  }
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
