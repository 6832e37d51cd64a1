import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { ByteRange, StoredFile } from '@stevedore/client';
import { ProblemError } from '../problems.js';
import { wanted } from './conditions.js';
import { formatDisposition } from './content-disposition.js';
import { DEFAULT_TYPE, mayShowInline, mediaType } from './media-type.js';

/**
 * The answer to a GET or HEAD of a stored file, as values that any server can
 * send. Uploaded content is foreign content: it is never sniffed, never run, and
 * shown in place only where nothing in it can be run.
 */

const FOREVER = 'public, max-age=31536000, immutable';
const REVALIDATE = 'public, no-cache';
const CONTENT_POLICY = "sandbox; default-src 'none'";

export interface FileRequest {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** The client asks for a file to keep, not for one to show. */
  readonly download: boolean;
}

export interface Presentation {
  readonly type: string;
  readonly name: string;
  /** False for files whose bytes may change under their id. */
  readonly immutable: boolean;
}

export interface FileAnswer {
  readonly status: 200 | 206 | 304;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** Absent for HEAD and 304. */
  readonly content?: Buffer | Readable;
}

/** Rejects with the store's errors, and with `range_not_satisfiable`. */
export async function answerFile(
  request: FileRequest,
  file: StoredFile,
  { type, name, immutable }: Presentation,
): Promise<FileAnswer> {
  const { etag, size, stagedAt } = file;
  const want = wanted(request.headers, { etag, size, modifiedAt: stagedAt });
  const headers: Record<string, string> = {
    etag,
    'last-modified': stagedAt.toUTCString(),
    'cache-control': immutable ? FOREVER : REVALIDATE,
  };
  if (want.kind === 'not-modified') return { status: 304, headers };
  if (want.kind === 'unsatisfiable') {
    throw new ProblemError('range_not_satisfiable', `The file has ${size} bytes.`, undefined, {
      etag,
      'last-modified': headers['last-modified']!,
      'content-range': `bytes */${size}`,
    });
  }
  const range = want.kind === 'range' ? want.range : undefined;
  // Read first: an error can still be answered as one, without a file's headers.
  const content = request.method === 'HEAD' ? undefined : await contentOf(file, range);
  const safeType = mediaType(type) ?? DEFAULT_TYPE;
  const inline = mayShowInline(safeType) && !request.download;
  if (range) headers['content-range'] = `bytes ${range.start}-${range.end}/${size}`;
  Object.assign(headers, {
    'content-type': safeType,
    'content-length': String(range ? range.end - range.start + 1 : size),
    'content-disposition': formatDisposition(inline ? 'inline' : 'attachment', name),
    'accept-ranges': 'bytes',
    'x-content-type-options': 'nosniff',
    'content-security-policy': CONTENT_POLICY,
    'cross-origin-resource-policy': 'same-site',
  });
  return { status: range ? 206 : 200, headers, ...(content === undefined ? {} : { content }) };
}

async function contentOf(
  file: StoredFile,
  range: ByteRange | undefined,
): Promise<Buffer | Readable> {
  const content = await file.content(range ? { range } : undefined);
  // A client may go, and a stream fail, before anybody listens.
  if (!Buffer.isBuffer(content)) content.on('error', () => {});
  return content;
}
