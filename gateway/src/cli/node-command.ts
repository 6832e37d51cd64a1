import { isIPv6 } from 'node:net';
import {
  flagName,
  fromEnvironment,
  fromFlags,
  type OptionSpec,
  type OptionTable,
  type OptionValues,
  parseOptions,
} from '@stevedore/options';
import type { Command } from 'commander';
import type { MetricsText } from '../observe/node-metrics.js';
import { version } from '../version.js';
import { explain } from './explain.js';
import {
  type MetricsAddress,
  type MetricsServer,
  metricsAddress,
  startMetricsServer,
} from './metrics-server.js';
import { addOptionFlags, givenFlags } from './option-flags.js';
import { stopSignal, untilStopped } from './until-stopped.js';
import { UsageError } from './usage.js';

/** What `stevedore tracker` and `stevedore storage` have in common. */

export interface Node {
  readonly host: string;
  readonly port: number;
  close(): Promise<void>;
}

export interface NodeCommand<Table extends OptionTable, Started extends Node> {
  readonly table: Table;
  /** Beside its address. */
  readonly describe: (options: OptionValues<Table>) => string;
  readonly start: (
    options: OptionValues<Table>,
    onError: (error: Error) => void,
  ) => Promise<Started>;
  readonly metrics: (node: Started) => Promise<MetricsText>;
}

export function configureNode<
  Table extends OptionTable & { readonly metrics: OptionSpec<string> },
  Started extends Node,
>(command: Command, { table, describe, start, metrics }: NodeCommand<Table, Started>): void {
  addOptionFlags(command, table);
  command.action(async () => {
    const sources = [fromFlags(givenFlags(command, table)), fromEnvironment(table, process.env)];
    let nameOf = flagName;
    const options = parseOptions(table, sources, (_options, names) => {
      nameOf = names;
    });
    const address = metricsAddress(options.metrics as string);
    const stopped = stopSignal();
    const started = start(options, (error) => {
      process.stderr.write(`error: ${explain(error)}\n`);
    });
    const node = await started.catch((error: unknown) => {
      throw asTyped(error, table, nameOf);
    });
    const server = address && (await serveMetrics(address, await metrics(node), node));
    const what = `stevedore ${version()} ${command.name()}`;
    const figures = server ? `\n  metrics ${server.url}` : '';
    process.stdout.write(`${what}${describe(options)}${figures}\nready ${endpoint(node)}\n`);
    await untilStopped(stopped, async () => {
      await server?.close();
      await node.close();
    });
  });
}

/** The daemons name an option as a program does; here it was typed. */
function asTyped(error: unknown, table: OptionTable, nameOf: (option: string) => string): unknown {
  if (!(error instanceof Error) || error.name !== 'OptionError') return error;
  // Any word at the beginning, later those that are no English ones.
  const name = /^[a-z]\w*|\b[a-z]+[A-Z]\w*/g;
  const typed = error.message.replace(name, (word) =>
    Object.hasOwn(table, word) ? nameOf(word) : word,
  );
  return new UsageError(typed);
}

async function serveMetrics(
  address: MetricsAddress,
  text: MetricsText,
  node: Node,
): Promise<MetricsServer> {
  try {
    return await startMetricsServer(address, text);
  } catch (error) {
    await node.close();
    throw error;
  }
}

function endpoint({ host, port }: Node): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}
