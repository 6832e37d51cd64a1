import { type StoreOptions, storeOptions } from '@stevedore/client';
import type { Command } from 'commander';
import { gatewayOptions, parseGatewayOptions } from '../options.js';
import { givenFlags, readConfigFile } from './options.js';

/**
 * The options of the gateway that owns the directory, but the ports of the embedded node
 * are free ones: no other program uses that node, and the usual ports may be in use.
 */
const { trackerPort, storagePort } = storeOptions;
const upkeepOptions = { ...gatewayOptions, trackerPort, storagePort };

/** Flags of commands that work on a store while no gateway has it. */
export const offlineStoreOptions = storeOptions;

export function storeOptionsOf(command: Command): StoreOptions {
  const sources = {
    flags: givenFlags(command, storeOptions),
    environment: process.env,
    file: readConfigFile(),
  };
  const options = parseGatewayOptions(sources, upkeepOptions);
  const names = Object.keys(storeOptions) as (keyof StoreOptions)[];
  return Object.fromEntries(names.map((name) => [name, options[name]])) as never;
}
