import type { ByteRange, StoredFile } from '@stevedore/client';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ProblemError } from '../problems.js';
import { wanted } from './conditions.js';
import { formatDisposition } from './content-disposition.js';
import { DEFAULT_TYPE, mayShowInline, mediaType } from './media-type.js';

/**
 * Answers a GET or HEAD with a stored file. Uploaded content is foreign content:
 * it is never sniffed, never run, and shown in place only where nothing in it
 * can be run.
 */

const FOREVER = 'public, max-age=31536000, immutable';
const REVALIDATE = 'public, no-cache';
const CONTENT_POLICY = "sandbox; default-src 'none'";

export interface Presentation {
  readonly type: string;
  readonly name: string;
  /** False for files whose bytes may change under their id. */
  readonly immutable: boolean;
}

export async function serveFile(
  request: FastifyRequest,
  reply: FastifyReply,
  file: StoredFile,
  { type, name, immutable }: Presentation,
): Promise<FastifyReply> {
  const { etag, size, stagedAt } = file;
  const validators = { etag, size, modifiedAt: stagedAt };
  const want = wanted(request.headers, validators);
  reply
    .header('etag', etag)
    .header('last-modified', stagedAt.toUTCString())
    .header('cache-control', immutable ? FOREVER : REVALIDATE);
  if (want.kind === 'not-modified') return reply.code(304).send();
  if (want.kind === 'unsatisfiable') {
    reply.header('content-range', `bytes */${size}`);
    reply.header('cache-control', 'no-store');
    throw new ProblemError('range_not_satisfiable', `The file has ${size} bytes.`);
  }
  const range = want.kind === 'range' ? want.range : undefined;
  const length = range ? range.end - range.start + 1 : size;
  // Read first: an error can still be answered as one, without a file's headers.
  const content = await contentOf(request, file, range);
  if (range) {
    reply.code(206).header('content-range', `bytes ${range.start}-${range.end}/${size}`);
  }
  const safeType = mediaType(type) ?? DEFAULT_TYPE;
  const inline = mayShowInline(safeType) && !wantsDownload(request);
  reply
    .header('content-type', safeType)
    .header('content-length', String(length))
    .header('content-disposition', formatDisposition(inline ? 'inline' : 'attachment', name))
    .header('accept-ranges', 'bytes')
    .header('x-content-type-options', 'nosniff')
    .header('content-security-policy', CONTENT_POLICY)
    .header('cross-origin-resource-policy', 'same-site');
  return reply.send(content);
}

async function contentOf(
  request: FastifyRequest,
  file: StoredFile,
  range: ByteRange | undefined,
): Promise<unknown> {
  if (request.method === 'HEAD') return undefined;
  const content = await file.content(range ? { range } : undefined);
  // A client may go, and a stream fail, before anybody listens.
  if (!Buffer.isBuffer(content)) content.on('error', () => {});
  return content;
}

/** `?download`, with any value. */
function wantsDownload(request: FastifyRequest): boolean {
  return Object.hasOwn(request.query as object, 'download');
}
