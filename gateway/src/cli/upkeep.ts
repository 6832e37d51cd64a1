import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { FsckReport, OpenOptions, ScrubReport } from '@stevedore/client';
import {
  discardFileMap,
  openForUpkeep,
  openSharedDirectory,
  otherWorkers,
  storeOptions,
  type Upkeep,
  workerDirectory,
} from '@stevedore/client/internal';
import { formatBytes, option } from '@stevedore/options';
import type { Command } from 'commander';
import { explain, UsageError } from './errors.js';
import { addOptions, define, flags, jsonOption, storeOptionsOf } from './options.js';
import { type Progress, startProgress } from './progress.js';

/** `stevedore fsck`, `scrub` and `rebuild`: work on a directory that no gateway uses. */

const FSCK_HELP = `
Works on a directory that no gateway has: stop the gateway first. Exit code 1 when there
are problems that were not repaired.

Examples:
  stevedore fsck --directory /var/lib/stevedore
  stevedore fsck --directory /var/lib/stevedore --repair`;

const fsckOptions = {
  ...flags({ repair: option.boolean(false, 'repair what can be repaired') }),
  ...jsonOption,
};

/** Compares FileMap, container and FastDFS. */
export function fsck(command: Command): void {
  addOptions(command, storeOptions);
  define(command, fsckOptions, FSCK_HELP, async ({ repair, json }) => {
    await withUpkeep(command, 'the trunks', async (upkeep, progress) => {
      const found = await upkeep.fsck({ repair, onProgress: progress.update });
      progress.stop();
      print(json ? JSON.stringify(found) : describeFsck(found));
      if (found.problems.some((problem) => !problem.repaired)) process.exitCode = 1;
    });
  });
}

function describeFsck(report: FsckReport): string {
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
      `perhaps   ${fileId} (${formatBytes(bytes)}) is a second copy of ${key ?? 'a deleted file'}: delete it if no other program uses it`,
    );
  }
  for (const { code, subject, detail, repaired } of report.problems) {
    rows.push(`${repaired ? 'repaired' : 'problem '}  ${code} ${subject}: ${detail}`);
  }
  if (report.problems.length === 0) rows.push('no problems found');
  return rows.join('\n');
}

const SCRUB_HELP = `
Works on a directory that no gateway has: stop the gateway first. A damaged copy is
quarantined where another one is sound; exit code 1 when a file has no sound copy.

Example:
  stevedore scrub --directory /var/lib/stevedore --rate 16MiB`;

const scrubOptions = {
  ...flags({
    rate: option.size('64MiB', 'most bytes to read per second', { minimum: '1KiB' }),
    dryRun: option.boolean(false, 'report damage and repair nothing'),
  }),
  ...jsonOption,
};

/** Reads every stored byte and verifies its checksum. */
export function scrub(command: Command): void {
  addOptions(command, storeOptions);
  define(command, scrubOptions, SCRUB_HELP, async ({ rate: bytesPerSecond, dryRun, json }) => {
    await withUpkeep(command, 'the bytes', async (upkeep, progress) => {
      const onProgress = progress.update;
      const report = await upkeep.scrub({ repair: !dryRun, bytesPerSecond, onProgress });
      progress.stop();
      print(json ? JSON.stringify(report) : describeScrub(report));
      if (report.damaged.some((damage) => !damage.repaired)) process.exitCode = 1;
      else if (report.damaged.length > 0) await upkeep.flush();
    });
  });
}

function describeScrub(report: ScrubReport): string {
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

const REBUILD_HELP = `
Works on a directory that no gateway has: stop the gateway first. Keys, names, types,
groups, FastDFS ids and deletions come back from the container and the trunks alone.

Example:
  stevedore rebuild --directory /var/lib/stevedore`;

/** Deletes the FileMap and rebuilds it. */
export function rebuild(command: Command): void {
  addOptions(command, storeOptions)
    .addHelpText('after', REBUILD_HELP)
    .action(async () => {
      const discard = ({ directory }: OpenOptions) => discardFileMap(String(directory));
      await withUpkeep(
        command,
        'the trunks',
        async (upkeep, progress) => {
          const { stagedFiles, mergedFiles, trunks } = upkeep.stats();
          progress.stop();
          print(
            `the FileMap has ${stagedFiles} staged and ${mergedFiles} merged files in ${trunks} trunks`,
          );
        },
        discard,
      );
    });
}

/**
 * Opens the directory, and those of further workers in it, one after the other. `what` names what
 * the bar counts; `before` runs on each directory before it is opened.
 */
async function withUpkeep(
  command: Command,
  what: string,
  work: (upkeep: Upkeep, progress: Progress) => Promise<void>,
  before: (options: OpenOptions) => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const options = storeOptionsOf(command);
  const data = String(options.directory);
  await demandOwner(data);
  const others = await otherWorkers(data);
  const open = async (given: OpenOptions): Promise<void> => {
    await before(given);
    const progress = startProgress(what);
    const upkeep = await openForUpkeep(given, {
      onRebuild: progress.update,
      onError: (error) => progress.warn(`warning: ${explain(error)}`),
    });
    try {
      await work(upkeep, progress);
    } finally {
      progress.stop();
      await upkeep.close();
    }
  };
  if (others.length === 0) return open(options);
  const { trackers, close } = await openSharedDirectory(options, (error) => {
    process.stderr.write(`warning: ${explain(error)}\n`);
  });
  try {
    for (const number of [1, ...others]) {
      const directory = workerDirectory(data, number);
      process.stderr.write(`${directory}\n`);
      await open({ ...options, directory, trackers });
    }
  } finally {
    await close();
  }
}

/** What root makes in the directory of another user, that one's gateway could not write. */
export async function demandOwner(directory: string): Promise<void> {
  const made = await stat(join(directory, 'container')).catch(() => undefined);
  if (process.getuid?.() !== 0 || !made || made.uid === 0) return;
  const { uid, gid } = made;
  const asOwner = `setpriv --reuid ${uid} --regid ${gid} --clear-groups`;
  const line = ['stevedore', ...process.argv.slice(2)].map(quoted).join(' ');
  throw new UsageError(
    `the files in ${directory} are of another user, who could not use what root makes; run\n${asOwner} ${line}`,
  );
}

/** For a shell. */
function quoted(word: string): string {
  return /^[\w./:=@,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
