import type { ScrubReport } from '@stevedore/client';
import { formatBytes, fromFlags, type OptionSpec, parseOptions } from '@stevedore/options';
import type { Command } from 'commander';
import { startProgress } from './progress.js';
import { addStoreFlags, print, withUpkeep } from './upkeep.js';

const RATE = {
  rate: { kind: 'size', default: 64 * 2 ** 20, minimum: 1024, help: '' } as OptionSpec<number>,
};

const HELP = `
Works on a directory that no gateway has: stop the gateway first. A damaged copy is put
out of use where another one is sound; exit code 1 when a file has no sound copy.

Example:
  stevedore scrub --directory /var/lib/stevedore --rate 16MiB`;

/** `stevedore scrub`: reads every stored byte against its checksum. */
export function configure(command: Command): void {
  addStoreFlags(command)
    .option('--rate <size>', 'bytes read in a second at the most (default: 64MiB)')
    .option('--dry-run', 'report damage and change nothing')
    .option('--json', 'print the report as JSON')
    .addHelpText('after', HELP)
    .action(async (flags: { rate?: string; dryRun?: boolean; json?: boolean }) => {
      const { rate } = parseOptions(RATE, [fromFlags({ rate: flags.rate })]);
      const progress = startProgress('the bytes');
      await withUpkeep(command, progress, async (upkeep) => {
        const onProgress = (done: number, all: number) => progress.update(done, all);
        const repair = flags.dryRun !== true;
        const report = await upkeep.scrub({ repair, bytesPerSecond: rate, onProgress });
        progress.stop();
        print(flags.json ? JSON.stringify(report) : describe(report));
        if (report.damaged.some((damage) => !damage.repaired)) process.exitCode = 1;
        else if (report.damaged.length > 0) await upkeep.flush();
      });
    });
}

function describe(report: ScrubReport): string {
  const rows = [
    `on this disk  ${report.localFiles} files, ${formatBytes(report.localBytes)}`,
    `in trunks     ${report.slices} files, ${formatBytes(report.sliceBytes)}`,
  ];
  for (const { key, where, detail, repaired } of report.damaged) {
    rows.push(`${repaired ? 'repaired' : 'damaged '}      ${key} in the ${where}: ${detail}`);
  }
  if (report.damaged.length === 0) rows.push('no damage found');
  return rows.join('\n');
}
