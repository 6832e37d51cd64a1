import { isError } from '@stevedore/protocol';

/**
 * Operating errors of the store: whether the same call may succeed later. A code never changes its
 * meaning. Messages say what happened, to what, and what to do. docs/REFERENCE.md lists all codes.
 */
export const STORE_ERRORS = {
  aborted: false,
  body_used: false,
  client_room_exceeded: true,
  closed: false,
  container_full: true,
  corrupt: false,
  directory_locked: false,
  directory_unusable: false,
  disk_failed: true,
  disk_full: true,
  filemap_locked: true,
  invalid_id: false,
  invalid_option: false,
  length_mismatch: false,
  missing_in_fastdfs: false,
  not_found: false,
  offset_mismatch: false,
  overloaded: true,
  partner_away: true,
  port_in_use: false,
  range_not_satisfiable: false,
  refused: false,
  storage_unavailable: true,
  too_large: false,
  too_many_unfinished: true,
  unsupported: false,
} as const;

export type StoreErrorCode = keyof typeof STORE_ERRORS;

export interface StoreErrorDetails {
  readonly cause?: unknown;
  /** Where it is not what the code says. */
  readonly retryable?: boolean;
}

export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code: StoreErrorCode;
  readonly retryable: boolean;

  constructor(code: StoreErrorCode, message: string, details: StoreErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.retryable = details.retryable ?? STORE_ERRORS[code];
  }
}

/**
 * True for a StoreError, with the given code if there is one. Compares the name, not the class: a
 * program may load two copies of the package.
 */
export function isStoreError(error: unknown, code?: StoreErrorCode): error is StoreError {
  if (!isError(error) || error.name !== 'StoreError' || !('code' in error)) return false;
  return code === undefined || error.code === code;
}

const WHAT_TO_DO = {
  disk_failed: 'the disk failed; check it, and the rights of the directory',
  disk_full: 'the disk is full; make room on it',
  filemap_locked: 'another program holds a lock on the FileMap; end it, and let it read a backup',
  overloaded: 'the system ran out of open files, memory or ports; raise its limits (ulimit -n)',
  storage_unavailable: 'a connection failed',
} satisfies Partial<Record<StoreErrorCode, string>>;

type SystemCode = keyof typeof WHAT_TO_DO;

/** What the errors of the system and of SQLite mean for a store. Others of the system: `disk_failed`. */
const MEANINGS: Readonly<Record<string, SystemCode>> = {
  ...meaning('disk_full', 'EDQUOT', 'ENOSPC', 'SQLITE_FULL'),
  ...meaning('filemap_locked', 'SQLITE_BUSY', 'SQLITE_LOCKED', 'SQLITE_PROTOCOL'),
  ...meaning('overloaded', 'EADDRNOTAVAIL', 'EAGAIN', 'EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'),
  ...meaning('overloaded', 'SQLITE_NOMEM'),
  ...meaning('storage_unavailable', 'EAI_AGAIN', 'ECONNABORTED', 'ECONNREFUSED', 'ECONNRESET'),
  ...meaning('storage_unavailable', 'EHOSTDOWN', 'EHOSTUNREACH', 'ENETDOWN', 'ENETRESET'),
  ...meaning('storage_unavailable', 'ENETUNREACH', 'ENOTCONN', 'ENOTFOUND', 'EPIPE'),
  ...meaning('disk_failed', 'SQLITE_CANTOPEN', 'SQLITE_CORRUPT', 'SQLITE_IOERR'),
  ...meaning('disk_failed', 'SQLITE_NOLFS', 'SQLITE_NOTADB', 'SQLITE_PERM', 'SQLITE_READONLY'),
};

function meaning(code: SystemCode, ...systems: readonly string[]): Record<string, SystemCode> {
  return Object.fromEntries(systems.map((system) => [system, code]));
}

/** Only a mistake of the program leads to them. */
const MISTAKES: ReadonlySet<string> = new Set(['EBADF', 'EFAULT']);

/** An error of the system or of SQLite as a StoreError; any other unchanged. */
export function storeErrorOf(error: unknown): unknown {
  const code = systemCodeOf(error);
  if (!code) return error;
  const message = `${WHAT_TO_DO[code]} (${(error as Error).message})`;
  return new StoreError(code, message, { cause: error });
}

/** Runs the work; errors of the system and of SQLite become StoreErrors. */
export async function withStoreErrors<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw storeErrorOf(error);
  }
}

function systemCodeOf(error: unknown): SystemCode | undefined {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (typeof code !== 'string' || MISTAKES.has(code)) return undefined;
  // SQLite adds details to some codes: SQLITE_BUSY_SNAPSHOT.
  const known = MEANINGS[/^SQLITE_[A-Z]+/.exec(code)?.[0] ?? code];
  // Node has no names for some errors of Linux.
  return known ?? (/^(E[A-Z0-9]+$|Unknown system error )/.test(code) ? 'disk_failed' : undefined);
}
