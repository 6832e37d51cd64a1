#!/usr/bin/env node
import { setFlagsFromString } from 'node:v8';
import { execute } from './cli/command.js';
import { EXIT_FAILED, explain } from './cli/errors.js';
import { loseLines } from './observe/log.js';
import { HEAP_GROWTH } from './program.js';

/** The `stevedore` command as a process. */

setFlagsFromString(HEAP_GROWTH);

/** They work on although nobody takes their lines. */
const DAEMONS = ['gateway', 'cluster', 'tracker', 'storage'];
/** The same, and fail at the end. */
const UPKEEP = ['fsck', 'scrub', 'rebuild', 'map', 'adopt'];
/** Who loses their output does not know what was stored where. */
const TRANSFERS = ['put', 'import', 'export'];

const args = process.argv.slice(2);
const command = args.find((argument) => !argument.startsWith('-')) ?? '';

loseLines(process.stderr);
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (DAEMONS.includes(command)) return;
  process.exitCode = EXIT_FAILED;
  if (UPKEEP.includes(command)) return;
  // A reader that stops early (`ls | head`) knows it.
  if (error.code !== 'EPIPE' || TRANSFERS.includes(command)) {
    process.stderr.write(`stevedore: stdout: ${explain(error)}\n`);
  }
  process.exit();
});

await execute(args);
