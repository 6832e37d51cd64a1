import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { formatKills, type KillsResult, runKills } from './kills.js';

/**
 * `npm run test:kills -- --kills 500`: the real-kill suite for as long as one likes.
 * Prints one line, and the seed; exits with 1 if anything is lost, altered or
 * undead or refused without a reason, and leaves the data where it is then.
 */

const USAGE = `usage: npm run test:kills -- [options]

  --kills N        SIGKILLs, over all set-ups (default: 500)
  --seed N         repeats the moments and victims of another run
  --set-up NAME    embedded, separate (default: both)
  --minutes N      no kill is begun later (default: 60)
  --lose-filemap   some gateways find their FileMap gone after a kill
  --directory DIR  existing directory for the data (default: the temporary one)
  --quiet          no line for every kill`;

const OPTIONS = {
  kills: { type: 'string', default: '500' },
  seed: { type: 'string' },
  'set-up': { type: 'string', default: 'embedded,separate' },
  minutes: { type: 'string', default: '60' },
  'lose-filemap': { type: 'boolean', default: false },
  directory: { type: 'string', default: tmpdir() },
  quiet: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

function parse(args: readonly string[]) {
  const { values } = parseArgs({ args: [...args], options: OPTIONS });
  const number = (name: 'kills' | 'seed' | 'minutes', text: string): number => {
    const value = Number(text);
    if (text.trim() !== '' && value >= 0 && value < 2 ** 32) return value;
    throw new Error(`--${name} must be a number, not "${text}"`);
  };
  const setUps = values['set-up'].split(',').map((name) => {
    if (name === 'embedded' || name === 'separate') return name;
    throw new Error(`--set-up must be embedded or separate, not "${name}"`);
  });
  return {
    help: values.help,
    quiet: values.quiet,
    directory: values.directory,
    kills: number('kills', values.kills),
    seed: number('seed', values.seed ?? String(Math.floor(Math.random() * 2 ** 32))),
    maxSeconds: number('minutes', values.minutes) * 60,
    loseFileMap: values['lose-filemap'],
    setUps,
  };
}

async function main(options: ReturnType<typeof parse>): Promise<boolean> {
  const { directory, quiet, seed } = options;
  const folder = mkdtempSync(join(directory, 'stevedore-kills-'));
  const onProgress = (line: string) => quiet || process.stderr.write(`${line}\n`);
  let result: KillsResult | undefined;
  try {
    result = await runKills({ ...options, folder, onProgress });
  } finally {
    if (result && isGood(result)) rmSync(folder, { recursive: true, force: true });
    else process.stderr.write(`the data is in ${folder}, the seed is ${seed}\n`);
  }
  for (const line of [...result.findings, ...result.refusals]) process.stderr.write(`${line}\n`);
  process.stderr.write(`deletions ${result.deletions}, compared by FastDFS id ${result.byId}\n`);
  process.stdout.write(`${formatKills(result)} (seed ${seed})\n`);
  return isGood(result);
}

function isGood({ lost, altered, undead, refusals }: KillsResult): boolean {
  return lost + altered + undead + refusals.length === 0;
}

// An exit that is one of ours ends the children.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

try {
  const options = parse(process.argv.slice(2));
  if (options.help) process.stdout.write(`${USAGE}\n`);
  else process.exitCode = await main(options).then((good) => (good ? 0 : 1), failed);
} catch (error) {
  process.stderr.write(`kills: ${(error as Error).message}\n`);
  process.exitCode = 2;
}

function failed(error: unknown): number {
  process.stderr.write(`kills: ${error instanceof Error ? error.stack : String(error)}\n`);
  return 1;
}
