import { Command, CommanderError } from 'commander';
import { version } from '../program.js';
import { EXIT_FAILED, EXIT_USAGE, explain, isUsageError, printable, UsageError } from './errors.js';

/**
 * The `stevedore` command. It loads only the requested subcommand. Exit codes: 0 done, 1 failed, 2
 * wrong usage.
 */

const SUMMARIES: readonly (readonly [usage: string, summary: string])[] = [
  [
    'gateway',
    'run the HTTP gateway, with an embedded tracker and storage unless --trackers names a cluster',
  ],
  [
    'cluster',
    'run a whole cluster on this machine: a tracker, two metadata servers, a storage for large files, a gateway',
  ],
  [
    'init <framework> [folder]',
    'write a small app that uploads and shows photos: express, fastify or next',
  ],
  ['tracker', 'run a tracker that speaks the FastDFS protocol'],
  ['storage', 'run a storage that speaks the FastDFS protocol'],
  [
    'migrate <action>',
    'show or control the moves of a storage with a metadata tier: status, pause, resume, dry-run, recall',
  ],
  ['doctor', 'check what a gateway relies on, and say how to fix problems'],
  ['keys', 'add, list and revoke API keys'],
  ['sign', 'make a signed URL for a download or an upload'],
  ['fsck', 'compare FileMap, container and FastDFS'],
  ['scrub', 'verify the checksum of every stored byte'],
  ['rebuild', 'rebuild the FileMap from the container and the trunks'],
  ['map <action>', 'fill, check or rebuild the map of a deployment'],
  ['drain', 'take a stopped gateway out of its deployment for good: nothing needs its disk then'],
  ['adopt <origin>', 'give the files of a lost gateway to another gateway of the deployment'],
  ['put <path...>', 'upload files and directories'],
  ['import [directory]', 'take over files from a directory or from FastDFS, and list their keys'],
  ['export <directory>', 'write files into a directory'],
  ['get [id]', 'download a file by key or FastDFS id, or a group of files as a ZIP'],
  ['ls', 'list files by group, name, type and time'],
  ['stat <id>', 'show what is known about a file: size, type, state, FastDFS id'],
  ['rm [id...]', 'delete files by key or FastDFS id, or a group of files'],
  ['flush', 'store what is staged in FastDFS now, so that it has its FastDFS ids'],
  ['version', 'print the versions of this command and of the gateway'],
];

const LOAD: Readonly<Record<string, () => Promise<(command: Command) => void>>> = {
  gateway: async () => (await import('./gateway.js')).configure,
  cluster: async () => (await import('./cluster.js')).configure,
  init: async () => (await import('./init.js')).configure,
  tracker: async () => (await import('./nodes.js')).tracker,
  storage: async () => (await import('./nodes.js')).storage,
  migrate: async () => (await import('./nodes.js')).migrate,
  doctor: async () => (await import('./doctor.js')).configure,
  keys: async () => (await import('./permissions.js')).keys,
  sign: async () => (await import('./permissions.js')).sign,
  fsck: async () => (await import('./upkeep.js')).fsck,
  scrub: async () => (await import('./upkeep.js')).scrub,
  rebuild: async () => (await import('./upkeep.js')).rebuild,
  map: async () => (await import('./map.js')).configure,
  drain: async () => (await import('./drain.js')).configure,
  adopt: async () => (await import('./adopt.js')).configure,
  put: async () => (await import('./put.js')).configure,
  import: async () => (await import('./import.js')).configure,
  export: async () => (await import('./export.js')).configure,
  version: async () => (await import('./version.js')).configure,
  get: async () => (await import('./get.js')).get,
  ls: async () => (await import('./file-commands.js')).list,
  stat: async () => (await import('./file-commands.js')).stat,
  rm: async () => (await import('./file-commands.js')).remove,
  flush: async () => (await import('./file-commands.js')).flush,
};

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

"stevedore COMMAND --help" explains one command. Commands that talk to a gateway find it
and its API key in the environment: STEVEDORE_URL, STEVEDORE_API_KEY. They use the proxy of
HTTP_PROXY, HTTPS_PROXY and NO_PROXY.`;

const EXIT_CODES = '\nExit codes: 0 done, 1 failed, 2 wrong usage.';

/** Says what is wrong on stderr, and leaves the exit code to the process. */
export async function execute(argv: readonly string[]): Promise<void> {
  try {
    await parse(argv);
  } catch (error) {
    process.exitCode = exitCodeOf(error);
  }
}

async function parse(argv: readonly string[]): Promise<void> {
  const program = new Command('stevedore')
    .description(INTRODUCTION)
    .version(`stevedore ${version()}`, '-V, --version', 'print the version')
    .exitOverride()
    .showHelpAfterError('(--help shows what there is)')
    .addHelpText('after', EXAMPLES)
    .addHelpText('afterAll', EXIT_CODES)
    .hook('preAction', (_program, command) => checkVariables(command.name()));
  const [first, second] = argv.filter((argument) => !argument.startsWith('-'));
  const asked = first === 'help' ? second : first;
  for (const [usage, summary] of SUMMARIES) {
    const command = program
      .command(usage)
      .summary(summary)
      .description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`);
    // Of the others, the options need not be loaded.
    if (command.name() === asked) (await LOAD[asked]?.())?.(command);
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
  const { unknownVariables } = await import('./options.js');
  const unknown = unknownVariables(process.env);
  if (unknown.length > 0) throw new UsageError(unknown.join('\n'));
}

function exitCodeOf(error: unknown): number {
  // The parser has printed it already; requested help and version are not errors.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_USAGE;
  for (const line of explain(error).split('\n')) {
    process.stderr.write(`stevedore: ${printable(line)}\n`);
  }
  return isUsageError(error) ? EXIT_USAGE : EXIT_FAILED;
}
