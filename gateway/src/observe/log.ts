import { type DestinationStream, type Logger, pino } from 'pino';
import type { LogLevel } from '../options.js';
import { redactKeys } from './redact.js';

/** The log: one JSON object a line, with words for levels and times that people can read. */

/** Struck out wherever they turn up in what is logged. */
const SECRETS = ['authorization', 'headers.authorization', '*.headers.authorization', 'cookie'];

/** Without a destination it goes to stderr: stdout has the line that begins with `ready`. */
export function makeLog(level: LogLevel, destination?: DestinationStream): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRETS, censor: '***' },
      serializers: { err: describeError },
    },
    destination ?? pino.destination({ dest: 2, sync: true }),
  );
}

/** Trouble that is retried is a warning, all other an error. */
export function logTrouble(log: Logger, error: unknown): void {
  const retried = error instanceof Error && 'retryable' in error && error.retryable === true;
  log[retried ? 'warn' : 'error']({ err: error }, 'background');
}

/** Code and message all the way down; the stack of unexpected errors. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error ? String(error.code) : undefined;
  return {
    type: error.name,
    ...(code === undefined ? { stack: error.stack } : { code }),
    message: redactKeys(error.message),
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}
