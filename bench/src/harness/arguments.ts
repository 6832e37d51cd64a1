import { parseArgs } from 'node:util';
import { type NamedServer, parseServer } from '../servers/kinds.js';
import type { Scale } from './benchmark.js';
import { UsageError } from './usage-error.js';

/** The command line. A mistake is a UsageError, whose message is all the user needs. */

export interface BenchArguments {
  readonly names: readonly string[];
  readonly scale: Scale;
  readonly json: string | undefined;
  readonly out: string | undefined;
  readonly directory: string | undefined;
  readonly trackers: readonly string[] | undefined;
  readonly servers: readonly NamedServer[];
  /** Undefined: all of them. */
  readonly parts: readonly string[] | undefined;
  readonly help: boolean;
}

export function usage(known: readonly string[]): string {
  return [
    'usage: npm run bench -- [NAME...] [options]',
    '',
    `benchmarks (none named: all): ${known.join(', ')}`,
    '',
    '  --quick                three short runs; figures are rough',
    '  --smoke                seconds, to see that everything runs; figures mean nothing',
    '  --json FILE            write the report to FILE as JSON',
    '  --out DIR              where charts are written (default: bench/out)',
    '  --directory DIR        existing directory for the data (default: the temporary one)',
    '  --parts PART,...       only these parts of a benchmark',
    '  --trackers HOST:PORT   measure a FastDFS cluster beside; commas between several',
    '  --server KIND=ADDRESS  measure this server beside (servers); again for another',
  ].join('\n');
}

export function parseArguments(args: readonly string[], known: readonly string[]): BenchArguments {
  const { values, positionals } = parse(args);
  for (const name of positionals) {
    if (!known.includes(name)) {
      throw new UsageError(`there is no benchmark "${name}"; there are: ${known.join(', ')}`);
    }
  }
  if (values.quick && values.smoke) throw new UsageError('--quick or --smoke, not both');
  const trackers = listed(values.trackers);
  if (trackers?.length === 0) throw new UsageError('--trackers: HOST:PORT is missing');
  const parts = listed(values.parts);
  if (parts?.length === 0) throw new UsageError('--parts: no part is named');
  return {
    names: positionals.length > 0 ? [...new Set(positionals)] : known,
    scale: values.smoke ? 'smoke' : values.quick ? 'quick' : 'full',
    json: values.json,
    out: values.out,
    directory: values.directory,
    trackers,
    servers: (values.server ?? []).map(parseServer),
    parts,
    help: values.help ?? false,
  };
}

/** Commas between several, or the option again. */
function listed(values: readonly string[] | undefined): string[] | undefined {
  return values
    ?.flatMap((each) => each.split(','))
    .map((each) => each.trim())
    .filter((each) => each !== '');
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
        trackers: { type: 'string', multiple: true },
        parts: { type: 'string', multiple: true },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
