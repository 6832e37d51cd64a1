import { parseArgs } from 'node:util';
import { KINDS, parseServer } from '../servers/kinds.js';
import type { Scale } from './benchmark.js';
import { UsageError } from './usage-error.js';

/** The command line. A mistake is a UsageError, whose message is all the user needs. */

export type BenchArguments = ReturnType<typeof parseArguments>;

/** `known`: what each benchmark measures, by name. */
export function usage(known: Readonly<Record<string, string>>): string {
  const names = Object.entries(known).map(([name, measures]) => `  ${name.padEnd(16)}${measures}`);
  const kinds = Object.entries(KINDS).map(([kind, form]) => `  ${kind}=${form}`);
  return `usage: npm run bench -- [NAME...] [options]

Measures Stevedore on this machine and prints a report in Markdown. Without a name, all
of these run, one after the other:

${names.join('\n')}

How much:
  --quick                a few short runs instead of five long ones; figures are rough
  --smoke                hardly measures: shows that everything runs
  --parts PART,...       only these parts of a benchmark; an unknown name lists them

Where:
  --directory DIR        an existing directory on the disk to measure (default: the temporary one)
  --out DIR              where charts are written (default: bench/out)
  --json FILE            write the report to FILE as JSON, too

Beside what:
  --server KIND=ADDRESS  measure this server beside, in servers, client and client-merging; again
                         for another

Figures of the documents:
  --record               keep the tables of this run in bench/results
  --note TEXT            a sentence that is kept with them
  --update-docs          write all recorded tables into the documents that name them, and end

Kinds of servers:
${kinds.join('\n')}`;
}

export function parseArguments(args: readonly string[], known: readonly string[]) {
  const { values, positionals } = parse(args);
  for (const name of positionals) {
    if (!known.includes(name)) {
      throw new UsageError(`there is no benchmark "${name}"; there are: ${known.join(', ')}`);
    }
  }
  if (values.quick && values.smoke) throw new UsageError('--quick or --smoke, not both');
  if (values.record && values.smoke) throw new UsageError('--smoke measures nothing to --record');
  const scale: Scale = values.smoke ? 'smoke' : values.quick ? 'quick' : 'full';
  const parts: readonly string[] | undefined = values.parts
    ?.flatMap((each) => each.split(','))
    .map((each) => each.trim())
    .filter((each) => each !== '');
  if (parts?.length === 0) throw new UsageError('--parts: no part is named');
  return {
    names: positionals.length > 0 ? [...new Set(positionals)] : known,
    scale,
    json: values.json,
    out: values.out,
    directory: values.directory,
    servers: (values.server ?? []).map(parseServer),
    /** Undefined: all of them. */
    parts,
    record: values.record ?? false,
    note: values.note ?? '',
    updateDocs: values['update-docs'] ?? false,
    help: values.help ?? false,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        quick: { type: 'boolean' },
        smoke: { type: 'boolean' },
        json: { type: 'string' },
        out: { type: 'string' },
        directory: { type: 'string' },
        server: { type: 'string', multiple: true },
        parts: { type: 'string', multiple: true },
        record: { type: 'boolean' },
        note: { type: 'string' },
        'update-docs': { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
