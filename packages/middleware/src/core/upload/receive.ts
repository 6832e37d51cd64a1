import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { FileStore, PutOptions, Receipt } from '@stevedore/client';
import { headerText } from '../http/content-disposition.js';
import { DEFAULT_TYPE, essence } from '../http/media-type.js';
import { type BodyLimits, maxFormBytes } from '../limits.js';
import { ProblemError } from '../problems.js';
import { fileNameOf } from './file-name.js';
import { boundaryOf, Form } from './form.js';
import type { ProgressGuard } from './progress-guard.js';
import { RequestBody, readWhole, tooLarge } from './request-body.js';

/**
 * Takes an upload off a request, a raw body or a form, and stores it. Nothing is
 * read of a body that says it is too long; nothing stays of one that does not
 * arrive whole. Rejects with ProblemError or the store's own error; whoever
 * answers closes a connection whose body was not read to its end.
 */

export interface UploadContext {
  readonly store: FileStore;
  readonly limits: BodyLimits;
  readonly guard: ProgressGuard;
}

/** In the order of the form; one for a raw body. */
export function receiveUpload(
  request: IncomingMessage,
  response: ServerResponse,
  context: UploadContext,
): Promise<Receipt[]> {
  const type = request.headers['content-type'] ?? DEFAULT_TYPE;
  return essence(type) === 'multipart/form-data'
    ? takeForm(request, response, context, type)
    : takeRaw(request, response, context, type);
}

async function takeRaw(
  request: IncomingMessage,
  response: ServerResponse,
  { store, limits, guard }: UploadContext,
  type: string,
): Promise<Receipt[]> {
  const { maxFileBytes, maxBufferedBytes } = limits;
  const name = fileNameOf(request.headers, limits);
  const group = groupOf(request.headers);
  const size = announcedBytes(request.headers, maxFileBytes);
  const options: PutOptions = {
    name,
    type,
    maxBytes: maxFileBytes,
    ...(group === undefined ? {} : { group }),
    ...(size === undefined ? {} : { size }),
  };
  continueIfAsked(request, response);
  if (size !== undefined && size <= maxBufferedBytes) {
    const bytes = size === 0 ? Buffer.alloc(0) : await readWhole(request, size, guard);
    return [await store.put(bytes, options)];
  }
  const body = new RequestBody(request, maxFileBytes, guard);
  return whole(body, async () => [
    await store.put(body.chunks(), { ...options, signal: body.signal }),
  ]);
}

async function takeForm(
  request: IncomingMessage,
  response: ServerResponse,
  { store, limits, guard }: UploadContext,
  type: string,
): Promise<Receipt[]> {
  const boundary = boundaryOf(type);
  if (boundary === undefined) {
    throw new ProblemError('malformed_multipart', 'Content-Type names no boundary.');
  }
  const limitBytes = maxFormBytes(limits);
  announcedBytes(request.headers, limitBytes);
  continueIfAsked(request, response);
  const body = new RequestBody(request, limitBytes, guard);
  const form = new Form(body, boundary, limits, groupOf(request.headers));
  const { group } = form;
  return whole(body, () => store.putAll(form.files(), { group, signal: body.signal }));
}

/** What the store says, unless the body failed: then that is the reason. */
async function whole<Result>(body: RequestBody, store: () => Promise<Result>): Promise<Result> {
  try {
    return await store();
  } catch (error) {
    throw body.failure ?? error;
  } finally {
    body.release();
  }
}

/** Content-Length; undefined for a chunked body. Too long a body is refused unread. */
function announcedBytes(headers: IncomingHttpHeaders, limitBytes: number): number | undefined {
  const header = headers['content-length'];
  if (header === undefined) {
    if (headers['transfer-encoding'] !== undefined) return undefined;
    throw new ProblemError(
      'length_required',
      'An upload needs a Content-Length (0 for an empty file) or a chunked body.',
    );
  }
  const bytes = Number(header);
  if (!Number.isSafeInteger(bytes) || bytes > limitBytes) throw tooLarge(limitBytes);
  return bytes;
}

function groupOf(headers: IncomingHttpHeaders): string | undefined {
  const value = headers['x-affinity-group'];
  return value === undefined || value === '' ? undefined : headerText(String(value));
}

/** A client that asks first is told to go on only now that its headers are in order. */
function continueIfAsked(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers.expect !== undefined) response.writeContinue();
}
