import { type AdoptionReport, adoptOrigin } from '@stevedore/client/internal';
import { formatBytes, type OptionTable, option } from '@stevedore/options';
import type { Command } from 'commander';
import { gatewayOptions } from '../options.js';
import { UsageError } from './errors.js';
import { define, flags, jsonOption } from './options.js';
import { startProgress } from './progress.js';

/** `stevedore adopt`: a gateway takes over the files of a lost one now, and says what is lost. */

const HELP = `
Gateways do this by themselves after --adopt-after; the command does it at once, can name the
adopter, and says what is lost. The map gives the files to the other gateway, which does the work;
the command only waits, and may be stopped and started again. With staged copies, the gateway that
holds them adopts the files, staged ones included. Without, files that only its disk had are missing
until its directory comes back.

Examples:
  stevedore adopt 4711 --map postgres://stevedore@10.0.0.9/stevedore
  stevedore adopt 4711 --by 1234 --map postgres://stevedore@10.0.0.9/stevedore`;

const adoptOptions = {
  map: gatewayOptions.map,
  ...flags({
    by: option.integer(
      0,
      'origin of the gateway that adopts the files; 0: who holds the copies of its staged files, else the only other one that is alive',
      {
        maximum: 65_535,
      },
    ),
  }),
  ...jsonOption,
} satisfies OptionTable;

export function configure(command: Command): void {
  define(command, adoptOptions, HELP, async ({ map, by, json }, text: string) => {
    if (!/^\d{1,5}$/.test(text)) throw new UsageError(`"${text}" is not an origin (1 to 65535)`);
    if (map === '') throw new UsageError('name the map of the deployment with --map');
    const progress = startProgress('the trunks');
    try {
      const report = await adoptOrigin({
        map,
        origin: Number(text),
        by: by === 0 ? undefined : by,
        onProgress: progress.update,
        onTrouble: (trouble) => progress.warn(`not adopted yet, and tried again: ${trouble}`),
        onAsked: (from, to, isAlive) => {
          if (isAlive) return;
          progress.warn(
            `origin ${to.origin} has the files of origin ${from.origin} now and is not running: it takes them over when it starts`,
          );
        },
      });
      progress.stop();
      process.stdout.write(`${json ? JSON.stringify(report) : describe(report)}\n`);
      if (report.adopted < report.trunks || report.lostFiles.length > 0) process.exitCode = 1;
    } finally {
      progress.stop();
    }
  });
}

function describe(report: AdoptionReport): string {
  const { origin, by, trunks, adopted, lost, lostFiles, hadCopies, seenAt } = report;
  const lines = [`origin ${by} has the ${adopted} trunks and large files of origin ${origin} now`];
  if (adopted < trunks) {
    lines.push(`${trunks - adopted} more could not be read: FastDFS has lost or damaged them`);
  }
  const when = `when it was last seen, ${seenAt.toISOString()}`;
  if (hadCopies) {
    lines.push(
      'it has the staged files of which it held copies, too; what was acknowledged with one copy is lost',
    );
  } else if (lost.files === 0) {
    lines.push(
      `all that it had was in FastDFS ${when}; what it took since then is lost unless it was merged`,
    );
  } else {
    lines.push(
      `lost are at most ${lost.files} files, ${formatBytes(lost.bytes)}, that only its disk had ${when}, and what it took since then`,
    );
  }
  if (lostFiles.length > 0) {
    lines.push('lost for certain, in FastDFS and every copy:');
    for (const { key, name } of lostFiles) lines.push(`  ${key}  ${name}`.trimEnd());
  }
  return lines.join('\n');
}
