import { isError } from '@stevedore/protocol';
import { STORE_ERRORS, StoreError, type StoreErrorCode } from '@stevedore/staging/errors';

/**
 * Converts a gateway's refusals to the errors that `open()` throws for the same mistake. What only
 * a gateway refuses (a wrong API key, a policy, a quota) becomes `refused`. Only the gateway's own
 * problem document becomes `not_found`: a 404 of a proxy or another server says nothing about a
 * file.
 */

/** The cause of the StoreError: the gateway's answer. */
export class GatewayRefusal extends Error {
  override readonly name = 'GatewayRefusal';
  readonly status: number;
  /** The gateway's code; undefined if the answer is not a gateway's. */
  readonly problem: string | undefined;
  /** Its sentence for people, if it is a gateway's. */
  readonly detail: string | undefined;
  /** Its Retry-After, if it sent one. */
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    status: number,
    { code, detail }: ReturnType<typeof problemIn>,
    retryAfterMs: number | undefined,
  ) {
    super(message);
    this.status = status;
    this.problem = code;
    this.detail = detail;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The gateway's answer that is the cause of an error. */
export function refusalIn(error: unknown): GatewayRefusal | undefined {
  const { cause } = Object(error) as { readonly cause?: unknown };
  return isError(cause) && cause.name === 'GatewayRefusal' ? (cause as GatewayRefusal) : undefined;
}

/** Of codes that `open()` does not have, or that mean something else of a gateway. */
const MEANT: Readonly<Record<string, StoreErrorCode>> = {
  body_too_slow: 'aborted',
  closed: 'storage_unavailable',
  header_timeout: 'aborted',
  headers_too_large: 'invalid_option',
  internal: 'storage_unavailable',
  invalid_expiry: 'invalid_option',
  invalid_file_id: 'invalid_id',
  invalid_key: 'invalid_id',
  invalid_media_type: 'invalid_option',
  invalid_name: 'invalid_option',
  not_flushed: 'storage_unavailable',
  shutting_down: 'storage_unavailable',
};

/** Statuses after which a retry may succeed. */
const PASSING: ReadonlySet<number> = new Set([408, 409, 429, 502, 503, 504, 507]);

export function refusalOf(
  url: string,
  status: number,
  retryAfter: string | string[] | undefined,
  body: string,
): StoreError {
  const problem = problemIn(body);
  const { code, detail } = problem;
  const retryAfterMs = /^\d{1,9}$/.test(String(retryAfter)) ? Number(retryAfter) * 1000 : undefined;
  const message =
    code === undefined
      ? `what answers at ${url} is not a gateway, or does not reach one (status ${status})`
      : `${detail} (${code}, from ${url})`;
  const cause = new GatewayRefusal(message, status, problem, retryAfterMs);
  return new StoreError(code === undefined ? codeOfStatus(status) : codeOf(code), message, {
    cause,
    retryable: PASSING.has(status),
  });
}

function codeOf(problem: string): StoreErrorCode {
  const code = MEANT[problem] ?? problem;
  return Object.hasOwn(STORE_ERRORS, code) ? (code as StoreErrorCode) : 'refused';
}

/** For the answer of a proxy in front of the gateway. */
function codeOfStatus(status: number): StoreErrorCode {
  if (status === 413) return 'too_large';
  return status === 401 || status === 403 || status === 429 ? 'refused' : 'storage_unavailable';
}

/** Code and text of a gateway's problem document. */
export function problemIn(body: string): { readonly code?: string; readonly detail?: string } {
  try {
    const { code, detail } = JSON.parse(body) as { code?: unknown; detail?: unknown };
    return typeof code === 'string' && typeof detail === 'string' ? { code, detail } : {};
  } catch {
    return {};
  }
}
