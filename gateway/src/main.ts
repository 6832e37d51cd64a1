#!/usr/bin/env node
import { setFlagsFromString } from 'node:v8';
import { execute } from './cli/command.js';
import { EXIT_FAILED, explain } from './cli/errors.js';
import { HEAP_GROWTH } from './program.js';

/** The `stevedore` command as a process. */

setFlagsFromString(HEAP_GROWTH);

/** Work is left undone if nobody reads their output to its end. */
const TRANSFERS = ['put', 'import', 'export', 'mirror'];

// A reader that stops early (`ls | head`) is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE' && !TRANSFERS.includes(process.argv[2] ?? '')) process.exit(0);
  process.stderr.write(`stevedore: stdout: ${explain(error)}\n`);
  process.exit(EXIT_FAILED);
});

await execute(process.argv.slice(2));
