import type { EventEmitter } from 'node:events';
import { isError } from '@stevedore/protocol';
import { type DestinationStream, type Logger, pino } from 'pino';
import type { LogLevel } from '../options.js';
import { type LogFormat, prettyLine } from './log-format.js';

/**
 * The log: one JSON object a line, or a line of text on a terminal, with levels and times that
 * people can read, and no secrets.
 */

/** Redacted wherever they appear in what is logged. */
const SECRET_FIELDS = [
  'authorization',
  'headers.authorization',
  '*.headers.authorization',
  'cookie',
];

/** Lines that a full disk did not take are kept up to this, and written once there is room. */
const STDERR = { dest: 2, sync: true, maxLength: 256 * 1024 };

/** Output that nobody takes ends nothing: its lines are lost. */
export function loseLines<Output extends EventEmitter>(output: Output): Output {
  return output.on('error', () => undefined);
}

/** Without a destination it goes to stderr: stdout has the line that begins with `ready`. */
export function makeLog(
  level: LogLevel,
  format: LogFormat,
  destination: DestinationStream = loseLines(pino.destination(STDERR)),
): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_FIELDS, censor: '***' },
      serializers: { err: describeError },
    },
    format === 'json' ? destination : { write: (line) => void destination.write(prettyLine(line)) },
  );
}

/** A problem that is retried is a warning, any other an error. */
export function logTrouble(log: Logger, error: unknown): void {
  const retried = isError(error) && 'retryable' in error && error.retryable === true;
  log[retried ? 'warn' : 'error']({ err: error }, 'background');
}

/** Code and message of every cause; the stack of unexpected errors. */
function describeError(error: unknown): unknown {
  if (!isError(error)) return String(error);
  const code = 'code' in error ? String(error.code) : undefined;
  return {
    type: error.name,
    ...(code === undefined ? { stack: error.stack } : { code }),
    message: redactKeys(error.message),
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}

/**
 * The part of a request's URL that may be logged. Secrets in the query and API keys anywhere are
 * redacted, and of a file's key only the time of its creation remains: anyone who has a whole key
 * can read the file.
 */

const SECRETS = /([?&][\w-]*(?:key|password|secret|sig|signature|token)=)[^&#]*/gi;
const API_KEYS = /(stv_[A-Za-z0-9]{12}_)[A-Za-z0-9_-]{43}/g;
/** The first 8 characters are the time; the unguessable part follows. */
const KEYS = /(?<![\w-])([\w-]{8})[\w-]{13}[AQgw](?![\w-])/g;
/** Characters that nobody has to escape: an escaped secret would not be found. */
const NEEDLESS_ESCAPES = /%(?:2[df]|3[0-9]|[46][1-9a-f]|[57][0-9a]|5f)/gi;
const MAX_URL_CHARS = 2048;

export function redactUrl(url: string): string {
  return url
    .replace(NEEDLESS_ESCAPES, (escaped) => decodeURIComponent(escaped))
    .replace(SECRETS, '$1***')
    .replace(API_KEYS, '$1***')
    .replace(KEYS, '$1***')
    .slice(0, MAX_URL_CHARS);
}

const FILE_IDS = /[\w-]{1,16}\/M[0-9A-F]{2}\/[0-9A-F]{2}\/[0-9A-F]{2}\/[\w.-]+/gi;

/** Keys and FastDFS ids in a text: anyone who has one can read the file. */
export function redactIds(text: string): string {
  return redactKeys(text.replace(FILE_IDS, '***'));
}

function redactKeys(text: string): string {
  return text.replace(KEYS, '$1***');
}
