import type { FsckReport } from '@stevedore/client';
import { formatBytes } from '@stevedore/options';
import type { Command } from 'commander';
import { startProgress } from './progress.js';
import { addStoreFlags, print, withUpkeep } from './upkeep.js';

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
      const progress = startProgress('the trunks');
      await withUpkeep(command, progress, async (upkeep) => {
        const onProgress = (done: number, all: number) => progress.update(done, all);
        const report = await upkeep.fsck({ repair: flags.repair === true, onProgress });
        progress.stop();
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
    `overhead  ${formatBytes(report.overheadBytes)} of headers and directories`,
    `unread    ${formatBytes(report.unreadBytes)} in ${report.unreadTrunks} trunks`,
    `orphans   ${formatBytes(report.orphanBytes)} in ${report.orphanTrunks} trunks`,
    `stored    ${formatBytes(report.storedBytes)}, the sum of the five`,
  ];
  if (report.openPlans > 0) {
    rows.push(
      `open      ${formatBytes(report.openBytes)} more at the most, of ${report.openPlans} plans that were given up`,
    );
  }
  if (report.unconfirmedTrunks > 0) {
    rows.push(`copies    ${report.unconfirmedTrunks} trunks are not on enough storages yet`);
  }
  if (report.damagedCopies > 0) rows.push(`damaged   ${report.damagedCopies} copies are not read`);
  for (const sentence of report.unlisted) rows.push(`unlisted  ${sentence}`);
  for (const { fileId, bytes, key } of report.possibleOrphans) {
    rows.push(
      `perhaps   ${fileId} (${formatBytes(bytes)}) is a second copy of ${key ?? 'a deleted file'}: delete it if no other program has it`,
    );
  }
  for (const { code, subject, detail, repaired } of report.problems) {
    rows.push(`${repaired ? 'repaired' : 'problem '}  ${code} ${subject}: ${detail}`);
  }
  if (report.problems.length === 0) rows.push('no problems found');
  return rows.join('\n');
}
