import { isIPv6 } from 'node:net';
import {
  environmentOptions,
  type OptionTable,
  type OptionValues,
  parseOptions,
} from '@stevedore/client';
import type { Command } from 'commander';
import { version } from '../version.js';
import { explain } from './explain.js';
import { addOptionFlags, givenFlags } from './option-flags.js';
import { stopSignal, untilStopped } from './until-stopped.js';

/** What `stevedore tracker` and `stevedore storage` have in common. */

export interface Node {
  readonly host: string;
  readonly port: number;
  close(): Promise<void>;
}

export interface NodeCommand<Table extends OptionTable> {
  readonly table: Table;
  /** Beside its address. */
  readonly describe: (options: OptionValues<Table>) => string;
  readonly start: (options: OptionValues<Table>, onError: (error: Error) => void) => Promise<Node>;
}

export function configureNode<Table extends OptionTable>(
  command: Command,
  { table, describe, start }: NodeCommand<Table>,
): void {
  addOptionFlags(command, table);
  command.action(async () => {
    const options = parseOptions(table, [
      { label: 'flag', values: givenFlags(command, table) },
      { label: 'environment', values: environmentOptions(table, process.env) },
    ]);
    const stopped = stopSignal();
    const node = await start(options, (error) => {
      process.stderr.write(`error: ${explain(error)}\n`);
    });
    const what = `stevedore ${version()} ${command.name()}`;
    process.stdout.write(`${what}${describe(options)}\nready ${endpoint(node)}\n`);
    await untilStopped(stopped, () => node.close());
  });
}

function endpoint({ host, port }: Node): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}
