import {
  checkDeploymentMap,
  fillMap,
  type MapRebuildReport,
  type MapReport,
  rebuildDeploymentMap,
  storeOptions,
} from '@stevedore/client/internal';
import { option } from '@stevedore/options';
import type { Command } from 'commander';
import { explain, UsageError } from './errors.js';
import { addOptions, define, flags, jsonOption, storeOptionsOf } from './options.js';
import { startProgress } from './progress.js';
import { demandOwner } from './upkeep.js';

/** `stevedore map`: fills, checks and rebuilds the map of a deployment. */

const HELP = `
Actions:
  fill      publish what the store of --directory has merged and deleted; stop its gateway first
  check     hold the map against the directories of all trunks, while the gateways run; --repair
            corrects it where the directories say what is true
  rebuild   make a lost map anew from the directories of the trunks alone, for gateways that are
            gone: start the others first. Files that were deleted and not compacted yet come back,
            because a directory does not know it; large files are not found

Each may be stopped and started again. Exit code 1 when there are problems that were not repaired.

Examples:
  stevedore map fill --directory /var/lib/stevedore --map postgres://stevedore@10.0.0.9/stevedore
  stevedore map check --trackers 10.0.0.1:22122 --map postgres://stevedore@10.0.0.9/stevedore`;

const mapOptions = {
  ...flags({ repair: option.boolean(false, 'check: correct the map') }),
  ...jsonOption,
};

export function configure(command: Command): void {
  addOptions(command, storeOptions);
  define(command, mapOptions, HELP, async ({ repair, json }, action: string) => {
    const options = storeOptionsOf(command);
    const progress = startProgress(action === 'fill' ? 'the trunks and deletions' : 'the trunks');
    const onProgress = progress.update;
    const print = (report: object, text: string): void => {
      progress.stop();
      process.stdout.write(`${json ? JSON.stringify(report) : text}\n`);
    };
    if (action !== 'fill' && repair && action !== 'check') {
      throw new UsageError('--repair is for "stevedore map check"');
    }
    if (options.map === '') throw new UsageError('name the map of the deployment with --map');
    try {
      if (action === 'fill') {
        await demandOwner(options.directory);
        const warn = (error: Error) => progress.warn(`warning: ${explain(error)}`);
        const report = await fillMap(options, onProgress, warn);
        const { files, trunks } = report;
        print(report, `the map has the ${files} files of ${trunks} trunks and large files`);
      } else if (action === 'check') {
        const report = await checkDeploymentMap(options, { repair, onProgress });
        print(report, describeMap(report));
        const { problems, more, unlisted } = report;
        const isLeft = more > 0 || unlisted.length > 0 || problems.some((each) => !each.repaired);
        if (isLeft) process.exitCode = 1;
      } else if (action === 'rebuild') {
        const report = await rebuildDeploymentMap(options, { onProgress });
        print(report, describeRebuild(report));
        if (report.unlisted.length > 0) process.exitCode = 1;
      } else throw new UsageError(`"${action}" is none of fill, check, rebuild`);
    } finally {
      progress.stop();
    }
  });
}

function describeMap({ trunks, files, problems, more, unlisted }: MapReport): string {
  const rows = [
    `map       ${files} files in ${trunks} trunks and large files are as they should be`,
  ];
  for (const sentence of unlisted) rows.push(`unlisted  ${sentence}`);
  for (const { code, subject, detail, repaired } of problems) {
    rows.push(`${repaired ? 'repaired' : 'problem '}  ${code} ${subject}: ${detail}`);
  }
  if (more > 0) rows.push(`and ${more} more problems`);
  if (problems.length === 0 && unlisted.length === 0) rows.push('no problems of the map found');
  return rows.join('\n');
}

function describeRebuild({ trunks, files, left, unlisted }: MapRebuildReport): string {
  const rows = [`the map was told of ${files} files; ${trunks} trunks were read`];
  if (left > 0) rows.push(`${left} trunks are left to their gateways, which are alive`);
  for (const sentence of unlisted) rows.push(`unlisted  ${sentence}`);
  return rows.join('\n');
}
