import { addressText, isError } from '@stevedore/protocol';

/**
 * Errors for operators: one sentence each, without a stack, that says what happened, to what, and
 * what to do; and the exit codes.
 */

const CLOSED = 'the other side closed the connection';

const SYSTEM: Readonly<Record<string, (error: NodeJS.ErrnoException) => string>> = {
  EADDRINUSE: (error) =>
    `${address(error)} is already in use; stop what runs there or choose another with --port`,
  EADDRNOTAVAIL: (error) =>
    `${address(error)} is not an address of this machine; choose another --host`,
  EACCES: (error) =>
    error.path === undefined
      ? `${address(error)} may not be used by this user`
      : `${error.path} may not be accessed by this user`,
  EROFS: (error) => `${error.path} is on a read-only file system`,
  ENOENT: (error) => `${error.path} does not exist`,
  ENOTDIR: (error) => `${error.path} is not in a directory`,
  ELOOP: (error) => `${error.path} is a link that leads to itself`,
  EISDIR: () => 'a directory is where a file was expected',
  ENOSPC: () => 'the disk is full',
  ECONNRESET: () => CLOSED,
  EPIPE: () => CLOSED,
  ECONNREFUSED: (error) => `nothing answers at ${address(error)}; is the gateway running?`,
  ENOTFOUND: (error) => `there is no host named ${'hostname' in error ? error.hostname : ''}`,
};

/** Errors of the HTTP client, which name no system call. */
const REQUEST: Readonly<Record<string, string>> = {
  UND_ERR_CONNECT_TIMEOUT: 'the gateway did not answer in time',
  UND_ERR_HEADERS_TIMEOUT: 'the gateway did not answer in time',
  UND_ERR_BODY_TIMEOUT: 'the gateway stopped sending',
  UND_ERR_SOCKET: 'the gateway closed the connection',
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: 'the file changed while it was read',
};

export function explain(error: unknown): string {
  if (!isError(error)) return String(error);
  const system = error as NodeJS.ErrnoException;
  const known = system.syscall === undefined ? undefined : SYSTEM[system.code ?? ''];
  if (known) return known(system);
  const request = REQUEST[system.code ?? ''];
  if (request !== undefined) return request;
  const [first] = (error as Partial<AggregateError>).errors ?? [];
  if (first) return explain(first);
  if (error.message === 'fetch failed' && error.cause) return explain(error.cause);
  if (isUsageError(error)) return error.message;
  // The gateway's own sentence, without its code and URL.
  const { detail } = Object(error.cause) as { readonly detail?: unknown };
  if (typeof detail === 'string') return detail;
  return error.message.split('\n')[0] ?? error.name;
}

/** A sentence about the file `name`, which it names once. */
export function complaint(name: string, error: unknown): string {
  const [shown, text] = [printable(name), printable(explain(error))];
  return text.startsWith(shown) ? text : `${shown}: ${text}`;
}

/**
 * Names come from strangers: they may contain control characters, which neither terminals may obey
 * nor lines break at, and marks that turn the direction of text.
 */
export function printable(text: string): string {
  return text.replace(/[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, (char) => {
    const escaped = JSON.stringify(char).slice(1, -1);
    return escaped === char ? `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}` : escaped;
  });
}

function address(error: NodeJS.ErrnoException): string {
  const { address: host, port } = error as { readonly address?: string; readonly port?: number };
  if (host === undefined) return 'the address';
  return port === undefined || port < 0 ? host : addressText(host, port);
}

export const EXIT_FAILED = 1;
export const EXIT_USAGE = 2;

export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Wrong options are wrong usage, wherever they are found. */
export function isUsageError(error: unknown): boolean {
  if (error instanceof UsageError) return true;
  if (!isError(error)) return false;
  const code = 'code' in error ? error.code : undefined;
  return code === 'invalid_option' || error.name === 'OptionError';
}
