/** One request, with progress of its body, and the meaning of its failure. */

export type UploadCode =
  /** The app called `abort()`. */
  | 'aborted'
  /** The server refused the file: `status` and `problem` say why. */
  | 'refused'
  /** No progress despite all retries. */
  | 'unreachable';

export class UploadError extends Error {
  override readonly name = 'UploadError';
  readonly code: UploadCode;
  /** HTTP status; 0 if there was no answer. */
  readonly status: number;
  /** The server's `code`, such as `too_large` or `type_not_allowed`. */
  readonly problem: string | undefined;

  constructor(code: UploadCode, message: string, status = 0, problem?: string) {
    super(message);
    this.code = code;
    this.status = status;
    this.problem = problem;
  }
}

export interface Answer {
  /** 0 if there was none. */
  readonly status: number;
  readonly text: string;
  readonly header: (name: string) => string | null;
}

export interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Blob;
  readonly withCredentials: boolean;
  /** Bytes of the body that the browser has sent. */
  readonly onSent?: (bytes: number) => void;
  readonly signal: AbortSignal;
}

/** Time without any progress after which a connection counts as lost. */
const STALLED_MS = 60_000;

/** Resolves with status 0 if the connection fails, stalls, or is aborted. */
export function request(asked: Asked): Promise<Answer> {
  const { method, url, headers, body, withCredentials, onSent, signal } = asked;
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve({ status: 0, text: '', header: () => null });
      return;
    }
    // fetch cannot report how much of a body was sent.
    const xhr = new XMLHttpRequest();
    const abort = (): void => xhr.abort();
    let timer = setTimeout(abort, STALLED_MS);
    const moved = (): void => {
      clearTimeout(timer);
      timer = setTimeout(abort, STALLED_MS);
    };
    xhr.upload.onprogress = ({ loaded }) => {
      moved();
      onSent?.(loaded);
    };
    xhr.onloadend = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      resolve({
        status: xhr.status,
        text: xhr.responseText,
        header: (name) => xhr.getResponseHeader(name),
      });
    };
    signal.addEventListener('abort', abort);
    xhr.open(method, url);
    xhr.withCredentials = withCredentials;
    for (const [name, value] of Object.entries(headers)) xhr.setRequestHeader(name, value);
    xhr.send(body ?? null);
  });
}

/** Statuses that may pass: the server is busy, down, or still has an earlier request. */
export function mayPass(status: number): boolean {
  return status === 0 || status >= 500 || [408, 409, 423, 425, 429, 460].includes(status);
}

export function refusal({ status, text }: Answer): UploadError {
  let detail: { readonly detail?: string; readonly code?: string } = {};
  try {
    detail = JSON.parse(text) as typeof detail;
  } catch {
    // Not from Stevedore, or an answer without a body.
  }
  const message = detail.detail ?? `The server answered with status ${status}.`;
  return new UploadError('refused', message, status, detail.code);
}

/** `Retry-After` in milliseconds; 0 without one. */
export function retryAfterMs({ header }: Answer): number {
  const seconds = Number(header('Retry-After') ?? 0);
  return seconds > 0 ? Math.min(seconds, 300) * 1000 : 0;
}
