#!/usr/bin/env node
import { setFlagsFromString } from 'node:v8';
import { Command, CommanderError } from 'commander';
import {
  EXIT_FAILED,
  EXIT_USAGE,
  explain,
  isUsageError,
  printable,
  UsageError,
} from './cli/errors.js';
import { HEAP_GROWTH } from './heap-growth.js';
import { version } from './package-files.js';

/**
 * The `stevedore` command. It loads only the requested subcommand. Exit codes: 0 done, 1 failed, 2
 * wrong usage.
 */

interface Subcommand {
  readonly usage: string;
  readonly summary: string;
  readonly load: () => Promise<(command: Command) => void>;
}

const SUBCOMMANDS: Readonly<Record<string, Subcommand>> = {
  gateway: {
    usage: 'gateway',
    summary:
      'run the HTTP gateway, with an embedded tracker and storage unless --trackers names a cluster',
    load: async () => (await import('./cli/gateway.js')).configure,
  },
  tracker: {
    usage: 'tracker',
    summary: 'run a tracker that speaks the FastDFS protocol',
    load: async () => (await import('./cli/nodes.js')).tracker,
  },
  storage: {
    usage: 'storage',
    summary: 'run a storage that speaks the FastDFS protocol',
    load: async () => (await import('./cli/nodes.js')).storage,
  },
  migrate: {
    usage: 'migrate <action>',
    summary:
      'show or control the moves of a storage with a metadata tier: status, pause, resume, dry-run, recall',
    load: async () => (await import('./cli/nodes.js')).migrate,
  },
  doctor: {
    usage: 'doctor',
    summary: 'check what a gateway relies on, and say how to fix problems',
    load: async () => (await import('./cli/doctor.js')).configure,
  },
  keys: {
    usage: 'keys',
    summary: 'add, list and revoke API keys',
    load: async () => (await import('./cli/permissions.js')).keys,
  },
  sign: {
    usage: 'sign',
    summary: 'make a signed URL for a download or an upload',
    load: async () => (await import('./cli/permissions.js')).sign,
  },
  fsck: {
    usage: 'fsck',
    summary: 'compare FileMap, container and FastDFS',
    load: async () => (await import('./cli/upkeep.js')).fsck,
  },
  scrub: {
    usage: 'scrub',
    summary: 'verify the checksum of every stored byte',
    load: async () => (await import('./cli/upkeep.js')).scrub,
  },
  rebuild: {
    usage: 'rebuild',
    summary: 'rebuild the FileMap from the container and the trunks',
    load: async () => (await import('./cli/upkeep.js')).rebuild,
  },
  map: {
    usage: 'map <action>',
    summary: 'fill, check or rebuild the map of a deployment',
    load: async () => (await import('./cli/map.js')).configure,
  },
  adopt: {
    usage: 'adopt <origin>',
    summary: 'give the files of a lost gateway to another gateway of the deployment',
    load: async () => (await import('./cli/adopt.js')).configure,
  },
  put: {
    usage: 'put <path...>',
    summary: 'upload files and directories',
    load: async () => (await import('./cli/put.js')).configure,
  },
  import: {
    usage: 'import [directory]',
    summary: 'take over files from a directory or from FastDFS, and list their keys',
    load: async () => (await import('./cli/import.js')).configure,
  },
  export: {
    usage: 'export <target>',
    summary: 'write files into a directory or a tar archive',
    load: async () => (await import('./cli/export.js')).configure,
  },
  get: {
    usage: 'get [id]',
    summary: 'download a file by key or FastDFS id, or a group of files as a ZIP',
    load: async () => (await import('./cli/file-commands.js')).get,
  },
  ls: {
    usage: 'ls',
    summary: 'list files by group, name, type and time',
    load: async () => (await import('./cli/file-commands.js')).list,
  },
  stat: {
    usage: 'stat <id>',
    summary: 'show what is known about a file: size, type, state, FastDFS id',
    load: async () => (await import('./cli/file-commands.js')).stat,
  },
  rm: {
    usage: 'rm [id...]',
    summary: 'delete files by key or FastDFS id, or a group of files',
    load: async () => (await import('./cli/file-commands.js')).remove,
  },
};

setFlagsFromString(HEAP_GROWTH);

/** Known without loading the tables of options. */
const CLIENT_VARIABLES = ['STEVEDORE_URL', 'STEVEDORE_API_KEY'];

const INTRODUCTION =
  'Stores small files in FastDFS. Acknowledges an upload once it is safe on this disk, serves it ' +
  'at once, and packs it with others into a trunk in the background.';

const EXAMPLES = `
Examples:
  stevedore gateway                              everything in one process, in ./stevedore-data
  stevedore gateway --trackers 10.0.0.1:22122    the same over a FastDFS cluster
  stevedore put holiday/ --group holiday         upload a directory as one affinity group
  stevedore get KEY -o photo.jpg                 download by key or by FastDFS id
  curl --data-binary @photo.jpg -H 'X-Filename: photo.jpg' http://127.0.0.1:8080/files

"stevedore COMMAND --help" explains one command. put, import, export, get, ls, stat and
rm find the gateway and its API key in the environment: STEVEDORE_URL, STEVEDORE_API_KEY.
Exit codes: 0 done, 1 failed, 2 wrong usage.`;

async function main(argv: readonly string[]): Promise<void> {
  const program = new Command('stevedore')
    .description(INTRODUCTION)
    .version(`stevedore ${version()}`, '-V, --version', 'print the version')
    .exitOverride()
    .showHelpAfterError('(--help shows what there is)')
    .addHelpText('after', EXAMPLES)
    .hook('preAction', (_program, command) => checkVariables(command.name()));
  const [first, second] = argv.filter((argument) => !argument.startsWith('-'));
  const asked = first === 'help' ? second : first;
  for (const [name, { usage, summary, load }] of Object.entries(SUBCOMMANDS)) {
    const command = program
      .command(usage)
      .summary(summary)
      .description(`${sentence(summary)}.`);
    if (name === asked) (await load())(command);
  }
  if (argv.length === 0) program.help({ error: true });
  await program.parseAsync(argv, { from: 'user' });
}

/** The doctor reports invalid options among its findings. */
async function checkVariables(command: string): Promise<void> {
  const hasOthers = Object.keys(process.env).some(
    (name) => name.startsWith('STEVEDORE_') && !CLIENT_VARIABLES.includes(name),
  );
  if (!hasOthers || command === 'doctor') return;
  const { unknownVariables } = await import('./cli/options.js');
  const unknown = unknownVariables(process.env);
  if (unknown.length > 0) throw new UsageError(unknown.join('\n'));
}

function sentence(summary: string): string {
  return summary[0]!.toUpperCase() + summary.slice(1);
}

function exitCodeOf(error: unknown): number {
  // The parser has printed it already; requested help and version are not errors.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_USAGE;
  for (const line of explain(error).split('\n')) {
    process.stderr.write(`stevedore: ${printable(line)}\n`);
  }
  return isUsageError(error) ? EXIT_USAGE : EXIT_FAILED;
}

/** Work is left undone if nobody reads their output to its end. */
const TRANSFERS = ['put', 'import', 'export'];

// A reader that stops early (`ls | head`) is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE' && !TRANSFERS.includes(process.argv[2] ?? '')) process.exit(0);
  process.stderr.write(`stevedore: stdout: ${explain(error)}\n`);
  process.exit(EXIT_FAILED);
});

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.exitCode = exitCodeOf(error);
}
