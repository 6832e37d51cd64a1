import type { IncomingHttpHeaders } from 'node:http';
import type { ByteRange, StoredFile } from '@stevedore/client';
import { ProblemError } from '../problems.js';
import { wanted } from './conditions.js';
import {
  DEFAULT_TYPE,
  essence,
  formatDisposition,
  mayRun,
  mayShowInline,
  mediaType,
} from './content-headers.js';
import { type Pace, type PacedContent, pacedContent, shortContent } from './paced-content.js';

/**
 * The answer to a GET or HEAD of a stored file, as values that any server can send. Uploaded
 * content is untrusted: browsers must neither sniff nor run it, and display it inline only if
 * nothing in it can run.
 */

const YEAR_SECONDS = 31_536_000;
const NOTHING = Buffer.alloc(0);
const CONTENT_POLICY = "sandbox; default-src 'none'";

export interface FileRequest {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** The client wants to download the file, not to display it. */
  readonly download: boolean;
}

export interface Presentation {
  readonly type: string;
  readonly name: string;
  /** False for files whose bytes may change under their id. */
  readonly immutable: boolean;
  /** True if shared caches must not store the answer. */
  readonly private?: boolean | undefined;
  /** How long the answer may be cached, for a file or a permission that expires. */
  readonly freshSeconds?: number | undefined;
  /** Types that are displayed inline although a browser might run them. */
  readonly inlineTypes?: ReadonlySet<string> | undefined;
  /** Only what a browser might run, or was asked for as a download, has a `Content-Disposition`. */
  readonly isBare?: boolean | undefined;
  /** `Cross-Origin-Resource-Policy`: which pages may display it. Default `same-site`. */
  readonly resourcePolicy?: ResourcePolicy | undefined;
}

export type ResourcePolicy = 'same-origin' | 'same-site' | 'cross-origin';

/** Content that writes itself after the head, and ends the response. `close` when that has closed. */
export type SentContent = Pick<PacedContent, 'send' | 'close'>;

export interface Answer {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** Absent for HEAD, 204 and 304. */
  readonly content?: Buffer | string | SentContent;
}

/** Rejects with the store's errors, `range_not_satisfiable` and `precondition_failed`. */
export async function answerFile(
  request: FileRequest,
  file: StoredFile,
  presentation: Presentation,
  pace: Pace,
): Promise<Answer> {
  const { etag, size, stagedAt } = file;
  const lastModified = stagedAt.toUTCString();
  const validators = { etag, 'last-modified': lastModified };
  const want = wanted(request.method, request.headers, {
    etag,
    size,
    modifiedAt: stagedAt,
    isDateStrong: presentation.immutable,
  });
  switch (want.kind) {
    case 'not-modified':
      return {
        status: 304,
        headers: { ...validators, 'cache-control': cacheControl(presentation, file.expiresAt) },
      };
    case 'precondition-failed':
      throw new ProblemError(
        'precondition_failed',
        'The file does not match If-Match or If-Unmodified-Since.',
        undefined,
        validators,
      );
    case 'unsatisfiable':
      throw new ProblemError('range_not_satisfiable', `The file has ${size} bytes.`, undefined, {
        ...validators,
        'content-range': `bytes */${size}`,
      });
    case 'whole':
      return send(request, file, presentation, pace, validators, undefined);
    case 'range':
      return send(request, file, presentation, pace, validators, want.range);
  }
}

/** Reads before the answer begins, so that an error can still be answered. */
async function send(
  request: FileRequest,
  file: StoredFile,
  presentation: Presentation,
  pace: Pace,
  validators: { readonly etag: string; readonly 'last-modified': string },
  range: ByteRange | undefined,
): Promise<Answer> {
  const { size } = file;
  const type = mediaType(presentation.type) ?? DEFAULT_TYPE;
  const headers: Record<string, string> = {
    etag: validators.etag,
    'last-modified': validators['last-modified'],
    'cache-control': cacheControl(presentation, file.expiresAt),
    'content-type': type,
    'content-length': String(size),
    'accept-ranges': 'bytes',
    'x-content-type-options': 'nosniff',
    'content-security-policy': CONTENT_POLICY,
    'cross-origin-resource-policy': presentation.resourcePolicy ?? 'same-site',
  };
  const disposition = dispositionOf(type, request, presentation);
  if (disposition)
    headers['content-disposition'] = formatDisposition(disposition, presentation.name);
  if (request.method === 'HEAD') return { status: 200, headers };
  if (range) {
    headers['content-range'] = `bytes ${range.start}-${range.end}/${size}`;
    headers['content-length'] = String(range.end - range.start + 1);
    return { status: 206, headers, content: await pacedContent(file, range, pace) };
  }
  const content = size === 0 ? NOTHING : shortContent(file, pace);
  const whole = { start: 0, end: size - 1 };
  return { status: 200, headers, content: content ?? (await pacedContent(file, whole, pace)) };
}

function dispositionOf(
  type: string,
  { download }: FileRequest,
  { isBare, inlineTypes }: Presentation,
): 'inline' | 'attachment' | undefined {
  if (download) return 'attachment';
  const isAllowed = inlineTypes?.has(essence(type)) === true;
  if (isBare) return isAllowed || !mayRun(type) ? undefined : 'attachment';
  return isAllowed || mayShowInline(type) ? 'inline' : 'attachment';
}

/** How long the answer may be cached from now on. */
export function cacheControl(
  presentation: Pick<Presentation, 'immutable' | 'private' | 'freshSeconds'>,
  expiresAt: Date | undefined,
  now = Date.now(),
): string {
  const { immutable, freshSeconds: allowed = YEAR_SECONDS } = presentation;
  const who = presentation.private ? 'private' : 'public';
  if (!immutable) return `${who}, no-cache`;
  const left = expiresAt ? Math.floor((expiresAt.getTime() - now) / 1000) : YEAR_SECONDS;
  const seconds = Math.max(0, Math.min(allowed, left, YEAR_SECONDS));
  return `${who}, max-age=${seconds}, immutable`;
}
