/**
 * How a long-running command writes: for people on a terminal, or as one JSON object a line on both
 * streams, so that a collector that merges them can parse every line.
 */

export const LOG_FORMATS = ['auto', 'pretty', 'json'] as const;
export type LogFormat = Exclude<(typeof LOG_FORMATS)[number], 'auto'>;

export type Note = (level: 'info' | 'error', message: string) => void;

/** Without a choice, whether someone watches the log decides. */
export function logFormatOf(chosen: (typeof LOG_FORMATS)[number]): LogFormat {
  if (chosen !== 'auto') return chosen;
  return process.stderr.isTTY ? 'pretty' : 'json';
}

/** For what is said without the logger, on stderr. */
export function notesIn(format: LogFormat): Note {
  return (level, message) => {
    const text = level === 'error' ? `error: ${message}` : message;
    process.stderr.write(`${format === 'json' ? jsonLine({ level, msg: message }) : text}\n`);
  };
}

export interface Banner {
  /** `stevedore 0.1.0 tracker` */
  readonly title: string;
  readonly rows: readonly (readonly [name: string, text: string])[];
  /** For people alone: what no log may have. */
  readonly secretRows?: Banner['rows'];
  /** Where it answers. */
  readonly address: string;
}

const NAME_CHARS = 8;

/** Says on stdout that a command is ready: as the last line `ready ADDRESS`, or as one JSON object. */
export function announce(format: LogFormat, { title, rows, secretRows, address }: Banner): void {
  if (format === 'json') {
    const facts = Object.fromEntries(rows);
    const line = jsonLine({ level: 'info', msg: 'ready', address, program: title, ...facts });
    process.stdout.write(`${line}\n`);
    return;
  }
  const shown = [...rows, ...((process.stdout.isTTY && secretRows) || [])];
  const lines = shown.map(([name, text]) => `  ${name.padEnd(NAME_CHARS)} ${text}`);
  process.stdout.write(`${[title, ...lines].join('\n')}\nready ${address}\n`);
}

function jsonLine({ level, ...fields }: Readonly<Record<string, unknown>>): string {
  return JSON.stringify({ level, time: new Date().toISOString(), ...fields });
}

const LEVEL_CHARS = 5;
const TIME_OF_DAY = { from: 11, to: 19 };

/** A line of the JSON log for people: time of day, level, message, and then what else it has. */
export function prettyLine(json: string): string {
  const { level, time, msg, err, ...fields } = JSON.parse(json) as Record<string, unknown>;
  const clock = String(time).slice(TIME_OF_DAY.from, TIME_OF_DAY.to);
  const words = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  const head = [clock, String(level).toUpperCase().padEnd(LEVEL_CHARS), msg];
  return `${[...head, ...errorWords(err), ...words].filter(Boolean).join(' ')}\n`;
}

/** The messages of an error and its causes, with their codes; the stack where there is no code. */
function errorWords(error: unknown): string[] {
  if (error === undefined) return [];
  if (typeof error !== 'object' || error === null) return [String(error)];
  const { code, message, stack, cause } = error as Readonly<Record<string, unknown>>;
  const own = code === undefined ? String(stack ?? message) : `${String(message)} (${code})`;
  return [own, ...errorWords(cause)];
}
