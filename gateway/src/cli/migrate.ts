import { readClusterSecrets } from '@stevedore/client';
import { formatBytes } from '@stevedore/options';
import type { MigrationAction } from '@stevedore/protocol';
import type { ClassStatus, MigrationStatus } from '@stevedore/tiering/control';
import type { Command } from 'commander';
import { UsageError } from './errors.js';
import { addOptions, migrateOptions, optionsOf } from './options.js';

/** `stevedore migrate`: what a storage moves out of its metadata tier, and whether it may. */

const ACTIONS: readonly MigrationAction[] = ['status', 'pause', 'resume', 'dry-run', 'recall'];

const HELP = `
Actions:
  status    what was served, what is forecast, the threshold, the moves
  pause     no moves by load or threshold until "resume"; files that outgrow their row still leave it
  resume    moves go on; ends a dry run and a recall too
  dry-run   moves are decided and logged, but not made, until "resume"
  recall    files in other groups come back, and none go there until "resume"

A storage moves files where it was started with --metadata-tier. It writes a line per move, with the
numbers that decided it, to data/.stevedore-moves.jsonl in its first store path.

Examples:
  stevedore migrate status
  stevedore migrate pause --storage 10.0.0.7:23000
  stevedore migrate status --prometheus`;

export function configure(command: Command): void {
  addOptions(command, migrateOptions)
    .addHelpText('after', HELP)
    .action(async (text: string) => {
      const options = optionsOf(command, migrateOptions);
      const action = ACTIONS.find((each) => each === text);
      if (!action) throw new UsageError(`"${text}" is none of ${ACTIONS.join(', ')}`);
      const [secret] = await readClusterSecrets(options.clusterSecretFile);
      const { askMigration, prometheusText } = await import('@stevedore/tiering/control');
      const status = await askMigration(options.storage, action, { secret });
      process.stdout.write(
        options.prometheus
          ? prometheusText(status)
          : `${options.json ? JSON.stringify(status) : describe(status)}\n`,
      );
    });
}

function describe(status: MigrationStatus): string {
  const { load, moves, intervalMs } = status;
  const state = status.isPaused ? 'paused' : status.isDryRun ? 'dry run' : 'moving files';
  const each = (name: string, one: ClassStatus): string =>
    `${name}: served ${formatBytes(one.servedBytes)} in ${one.servedRequests} requests, ` +
    `${one.waitingRequests} wait, forecast ${formatBytes(Math.round(one.forecastBytes))} ` +
    `(mean error ${formatBytes(Math.round(one.meanErrorBytes))}), ${one.busyAnswersTotal} answered as busy`;
  return [
    `${status.migrates ? state : 'moves by growth only'}; intervals of ${intervalMs / 1000} s, ` +
      `at most ${formatBytes(Math.round(status.capacityBytes))} each`,
    `threshold ${formatBytes(status.thresholdBytes)}; ${status.rows.files} files in rows, ` +
      `${formatBytes(status.rows.bytes)} of ${formatBytes(status.roomBytes)}, ` +
      `and ${status.slices.files} slices, ${formatBytes(status.slices.bytes)}`,
    otherGroups(status),
    each('metadata', load.metadata),
    each('small files', load.smallFile),
    `moves: ${moves.moved} made (${formatBytes(status.movedBytes)}), ${moves.revoked} revoked, ` +
      `${moves.refused} refused, ${moves.failed} failed, ${status.queued} wait`,
  ].join('\n');
}

function otherGroups({ away, unwantedCopies, openCopies, isRecalling }: MigrationStatus): string {
  return (
    `other groups: ${away.files} files, ${formatBytes(away.bytes)}` +
    `${isRecalling ? ', being recalled' : ''}; ` +
    `${unwantedCopies} copies yet to be deleted, ${openCopies} that may or may not be stored`
  );
}
