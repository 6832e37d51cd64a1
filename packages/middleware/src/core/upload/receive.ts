import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { PutOptions, Receipt, Store } from '@stevedore/client';
import { essence, fileNameOf, fileType, headerText } from '../http/content-headers.js';
import { maxFormBytes, type TransferLimits } from '../limits.js';
import { ProblemError } from '../problems.js';
import { checkKey } from '../receipts.js';
import { checkBytes, checkedBody } from './content-check.js';
import { digestCheck } from './digests.js';
import { boundaryOf, Form } from './form.js';
import { expiryOf, limitsUnder, typeProblem, type UploadPolicy } from './policy.js';
import type { ProgressGuard, UploadQuota, UploadRoom } from './request-body.js';
import { RequestBody, readWhole, sendContinueIfExpected, tooLarge } from './request-body.js';

/**
 * Receives an upload, a raw body or a form, and stores it. A body whose headers announce too much,
 * or a type that is not accepted, is refused unread. A body that does not arrive whole, or fails
 * its checksums, leaves nothing behind. Rejects with ProblemError or the store's own error; the
 * caller closes a connection whose body was not read to its end.
 */

/** What all uploads of one server share. */
export interface UploadParts {
  readonly store: Store;
  readonly limits: TransferLimits;
  readonly guard: ProgressGuard;
}

export interface UploadContext extends UploadParts {
  readonly policy?: UploadPolicy;
  /** The share of its client's quota that this upload holds. */
  readonly room?: (() => UploadRoom) | undefined;
  readonly quota?: UploadQuota | undefined;
  /** The mark of the upload; see `Store.findOnce`. */
  readonly once?: Uint8Array | undefined;
}

const ANYTHING: UploadPolicy = {};

/** In the order of the form; one for a raw body. Throws too. */
export function receiveUpload(
  request: IncomingMessage,
  response: ServerResponse,
  context: UploadContext,
): Promise<Receipt[]> {
  const { store, guard, policy = ANYTHING, room, quota, once } = context;
  // The creation of a tus upload has no body; it would be stored as an empty file.
  if (request.headers['tus-resumable'] !== undefined) {
    throw new ProblemError('tus_not_supported', 'a tus client');
  }
  demandPlain(request.headers);
  const declared = request.headers['content-type'];
  const taking: Taking = {
    store,
    guard,
    policy,
    room,
    quota,
    once,
    limits: limitsUnder(context.limits, policy),
    formBytes: maxFormBytes(context.limits),
    expiry: expiryOf(request.headers, policy, Date.now()),
    group: policy.group ?? groupOf(request.headers),
  };
  return declared !== undefined && essence(declared) === 'multipart/form-data'
    ? takeForm(request, response, taking, declared)
    : takeRaw(request, response, taking);
}

interface Taking extends UploadContext {
  readonly policy: UploadPolicy;
  readonly expiry: Pick<PutOptions, 'expiresAt'>;
  readonly group: string | undefined;
  /** Longest form. */
  readonly formBytes: number;
}

async function takeRaw(
  request: IncomingMessage,
  response: ServerResponse,
  { store, limits, guard, room, quota, policy, once, expiry, group }: Taking,
): Promise<Receipt[]> {
  const { maxFileBytes, maxBufferedBytes } = limits;
  const { headers } = request;
  const { name, type } = rawFile(headers, limits);
  const size = announcedBytes(headers, maxFileBytes);
  const problem = typeProblem(type, policy);
  if (problem) throw problem;
  const declaredType = policy.checkContent ? type : undefined;
  const digests = digestCheck(headers);
  const options: PutOptions = {
    name,
    type,
    size,
    once,
    group,
    expiresAt: expiry.expiresAt,
    durability: policy.durability,
    pictureOf: pictureOf(headers),
    maxBytes: maxFileBytes,
    // Nothing else refers to the bytes.
    transfer: true,
  };
  const taking = size !== undefined && quota?.take(size, size);
  if (taking) await taking;
  sendContinueIfExpected(request, response);
  const isChecked = declaredType !== undefined || digests !== undefined;
  if (size !== undefined && size <= maxBufferedBytes) {
    const bytes = size === 0 ? Buffer.alloc(0) : await readWhole(request, size, guard);
    const checking = isChecked && checkBytes(bytes, { declaredType, digests, fail });
    if (checking) await checking;
    return [await store.put(bytes, options)];
  }
  const body = new RequestBody(request, { limitBytes: maxFileBytes, guard, room: room?.(), quota });
  const content = quota && size === undefined ? body.counted() : body.chunks();
  const failBody = (error: ProblemError): ProblemError => body.fail(error);
  const chunks = isChecked
    ? checkedBody(content, { declaredType, digests, fail: failBody })
    : content;
  return body.use(async () => [await store.put(chunks, { ...options, signal: body.signal })]);
}

/** What a raw body becomes. */
export function rawFile(headers: IncomingHttpHeaders, limits: TransferLimits) {
  const name = fileNameOf(headers, limits);
  return { name, type: fileType(headers['content-type'], name) };
}

function pictureOf(headers: IncomingHttpHeaders): string | undefined {
  const key = headers['x-picture-of'];
  return key === undefined ? undefined : checkKey(String(key));
}

async function takeForm(
  request: IncomingMessage,
  response: ServerResponse,
  taking: Taking,
  type: string,
): Promise<Receipt[]> {
  const { store, limits, formBytes: limitBytes, guard, room, quota, policy, once, expiry } = taking;
  demandOrdinary(request.headers);
  const boundary = boundaryOf(type);
  if (boundary === undefined) {
    throw new ProblemError('malformed_multipart', 'Content-Type names no boundary.');
  }
  const expectedBytes = announcedBytes(request.headers, limitBytes);
  const digests = digestCheck(request.headers);
  sendContinueIfExpected(request, response);
  const body = new RequestBody(request, {
    limitBytes,
    guard,
    digests,
    room: room?.(),
    quota,
    expectedBytes,
  });
  const form = new Form(body, boundary, limits, {
    // An empty header says that the files of a form are to have no group of their own.
    group: taking.group ?? (request.headers['x-affinity-group'] === '' ? '' : undefined),
    policy,
    expiry,
  });
  const { group } = form;
  const { durability } = policy;
  return body.use(() =>
    store.putAll(form.files(), { durability, once, group, signal: body.signal }),
  );
}

/** For uploads that cannot have what a header asks for. */
export function demandOrdinary(headers: IncomingHttpHeaders): void {
  if (headers['x-picture-of'] === undefined) return;
  throw new ProblemError('bad_request', 'With X-Picture-Of, an upload is a raw body.');
}

function fail(error: ProblemError): ProblemError {
  return error;
}

/**
 * A body with a content coding would be stored encoded and sent without the coding's name, as other
 * bytes than were meant, so it is refused.
 */
function demandPlain(headers: IncomingHttpHeaders): void {
  const transfer = headers['transfer-encoding'];
  if (transfer !== undefined && transfer.trim().toLowerCase() !== 'chunked') {
    throw new ProblemError('unsupported_transfer_coding', `This one is not: ${transfer}`);
  }
  const encoding = headers['content-encoding'];
  if (encoding === undefined || /^[ \t,]*(?:identity[ \t,]*)*$/i.test(encoding)) return;
  const message = 'A body is stored as it is: send it without Content-Encoding.';
  throw new ProblemError('unsupported_encoding', message, undefined, {
    'accept-encoding': 'identity',
  });
}

/**
 * Content-Length; undefined for a chunked body. A body that is too long is refused unread, and so is
 * one of HTTP/2 without a length: Node ends it in the same way whether it is whole or cut off.
 */
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
