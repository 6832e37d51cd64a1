import { type FsckReport, formatBytes } from '@stevedore/client';
import type { Command } from 'commander';
import { addStoreFlags, print, startBar, withUpkeep } from './upkeep.js';

const HELP = `
Works on a directory that no gateway has: stop the gateway first. Exit code 1 when there
are problems that were not repaired.

Examples:
  stevedore fsck --directory /var/lib/stevedore
  stevedore fsck --directory /var/lib/stevedore --repair`;

/** `stevedore fsck`: holds FileMap, container and FastDFS against each other. */
export function configure(command: Command): void {
  addStoreFlags(command)
    .option('--repair', 'mend what can be mended')
    .option('--json', 'print the report as JSON')
    .addHelpText('after', HELP)
    .action(async (flags: { readonly repair?: boolean; readonly json?: boolean }) => {
      const bar = await startBar('trunks');
      await withUpkeep(command, bar, async (upkeep) => {
        const onProgress = (done: number, all: number) => bar.update(done, all);
        const report = await upkeep.fsck({ repair: flags.repair === true, onProgress });
        bar.stop();
        print(flags.json ? JSON.stringify(report) : describe(report));
        if (report.problems.some((problem) => !problem.repaired)) process.exitCode = 1;
      });
    });
}

function describe(report: FsckReport): string {
  const rows = [
    `staged    ${report.waitingFiles} small files, ${formatBytes(report.waitingBytes)}; ${report.spooledFiles} large, ${formatBytes(report.spooledBytes)}`,
    `merged    ${report.mergedFiles} files in ${report.trunks} trunks`,
    `live      ${formatBytes(report.liveBytes)}`,
    `dead      ${formatBytes(report.deadBytes)} of ${report.deadFiles} deleted or moved files`,
    `orphans   ${formatBytes(report.possibleOrphanBytes)} at the most, of ${report.abandonedPlans} plans that were given up`,
  ];
  for (const { code, subject, detail, repaired } of report.problems) {
    rows.push(`${repaired ? 'repaired' : 'problem '}  ${code} ${subject}: ${detail}`);
  }
  if (report.problems.length === 0) rows.push('no problems found');
  return rows.join('\n');
}
