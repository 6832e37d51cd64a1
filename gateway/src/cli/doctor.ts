import type { Command } from 'commander';
import { type Finding, ok, problem } from '../doctor/finding.js';
import {
  CONFIG_FILE,
  type GatewayOptions,
  gatewayOptions,
  parseGatewayOptions,
} from '../options.js';
import { explain } from './errors.js';
import {
  addOptions,
  givenFlags,
  jsonOption,
  optionsOf,
  readConfigFile,
  unknownVariables,
} from './options.js';

const HELP = `
Takes the options of the gateway and examines what it relies on; a gateway may be running.
Writes for two seconds to the directory, and stores and deletes one small file in a cluster
that was named. With a map, the other gateways are asked, and try to reach this one if it runs. Exit code 1 when there is a problem; warnings alone are 0.

Examples:
  stevedore doctor --directory /var/lib/stevedore
  stevedore doctor --trackers 10.0.0.1:22122 --json`;

/** `stevedore doctor`: reports problems before they stop a gateway, and what to do about them. */
export function configure(command: Command): void {
  addOptions(addOptions(command, gatewayOptions), jsonOption)
    .addHelpText('after', HELP)
    .action(async () => {
      const { json } = optionsOf(command, jsonOption);
      const findings = await examineAll(command);
      const healthy = findings.every(({ verdict }) => verdict !== 'problem');
      const text = json ? JSON.stringify({ healthy, findings }) : describe(findings);
      process.stdout.write(`${text}\n`);
      if (!healthy) process.exitCode = 1;
    });
}

async function examineAll(command: Command): Promise<readonly Finding[]> {
  const advice = 'no gateway starts with these options: correct them first';
  const wrong = (detail: string) => problem('options', detail, advice);
  const unknown = unknownVariables(process.env).map(wrong);
  let options: GatewayOptions;
  try {
    options = parseGatewayOptions({
      flags: givenFlags(command, gatewayOptions),
      environment: process.env,
      file: readConfigFile(),
    });
  } catch (error) {
    return [...unknown, ...explain(error).split('\n').map(wrong)];
  }
  const { examine } = await import('../doctor/doctor.js');
  const checked = unknown.length > 0 ? unknown : [ok('options', 'well formed')];
  return [...checked, ...(await examine(options, CONFIG_FILE, readConfigFile()))];
}

function describe(findings: readonly Finding[]): string {
  const marks = { ok: 'ok      ', warning: 'warning ', problem: 'PROBLEM ' };
  const rows = findings.flatMap(({ what, verdict, detail, advice }) => [
    `${marks[verdict]} ${what}: ${detail}`,
    ...(advice === undefined ? [] : [`          ${advice}`]),
  ]);
  const count = (wanted: string) => findings.filter(({ verdict }) => verdict === wanted).length;
  const plural = (number: number, what: string) => `${number} ${what}${number === 1 ? '' : 's'}`;
  rows.push(`${plural(count('problem'), 'problem')}, ${plural(count('warning'), 'warning')}`);
  return rows.join('\n');
}
