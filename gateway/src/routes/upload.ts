import type { FileStore, PutOptions, Receipt } from '@stevedore/client';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { headerText } from '../http/content-disposition.js';
import { DEFAULT_TYPE, essence } from '../http/media-type.js';
import { fileUrl, receiptJson } from '../http/receipt-json.js';
import { type Limits, maxFormBytes } from '../limits.js';
import { ProblemError } from '../problems.js';
import { fileNameOf } from '../upload/file-name.js';
import { boundaryOf, Form } from '../upload/form.js';
import type { ProgressGuard } from '../upload/progress-guard.js';
import { RequestBody, readWhole, tooLarge } from '../upload/request-body.js';

/**
 * `POST /files`: a raw body or a form. Nothing is read of a body that says it
 * is too long; nothing stays of one that does not arrive whole.
 */
export class Uploads {
  readonly #store: FileStore;
  readonly #limits: Limits;
  readonly #guard: ProgressGuard;

  constructor(store: FileStore, limits: Limits, guard: ProgressGuard) {
    this.#store = store;
    this.#limits = limits;
    this.#guard = guard;
  }

  readonly handle = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const type = request.headers['content-type'] ?? DEFAULT_TYPE;
    if (essence(type) === 'multipart/form-data') return this.#takeForm(request, reply, type);
    const receipt = await this.#takeRaw(request, reply, type);
    return sendReceipt(reply, receipt);
  };

  async #takeRaw(request: FastifyRequest, reply: FastifyReply, type: string): Promise<Receipt> {
    const { maxFileBytes, maxBufferedBytes } = this.#limits;
    const name = fileNameOf(request.headers, this.#limits);
    const group = groupOf(request);
    const size = announcedBytes(request, maxFileBytes);
    const options: PutOptions = {
      name,
      type,
      maxBytes: maxFileBytes,
      ...(group === undefined ? {} : { group }),
      ...(size === undefined ? {} : { size }),
    };
    continueIfAsked(request, reply);
    if (size !== undefined && size <= maxBufferedBytes) {
      const bytes = size === 0 ? Buffer.alloc(0) : await readWhole(request.raw, size, this.#guard);
      return this.#store.put(bytes, options);
    }
    const body = new RequestBody(request.raw, maxFileBytes, this.#guard);
    return whole(body, this.#store.put(body.chunks(), { ...options, signal: body.signal }));
  }

  async #takeForm(
    request: FastifyRequest,
    reply: FastifyReply,
    type: string,
  ): Promise<FastifyReply> {
    const boundary = boundaryOf(type);
    if (boundary === undefined) {
      throw new ProblemError('malformed_multipart', 'Content-Type names no boundary.');
    }
    const limitBytes = maxFormBytes(this.#limits);
    announcedBytes(request, limitBytes);
    continueIfAsked(request, reply);
    const body = new RequestBody(request.raw, limitBytes, this.#guard);
    const form = new Form(body, boundary, this.#limits, groupOf(request));
    const { group } = form;
    const stored = this.#store.putAll(form.files(), { group, signal: body.signal });
    const receipts = await whole(body, stored);
    const [first] = receipts;
    if (receipts.length === 1 && first) return sendReceipt(reply, first);
    return reply.code(201).header('cache-control', 'no-store').send(receipts.map(receiptJson));
  }
}

/** What the store says, unless the body failed: then that is the reason. */
async function whole<Result>(body: RequestBody, stored: Promise<Result>): Promise<Result> {
  try {
    return await stored;
  } catch (error) {
    throw body.failure ?? error;
  } finally {
    body.release();
  }
}

function sendReceipt(reply: FastifyReply, receipt: Receipt): FastifyReply {
  return reply
    .code(201)
    .header('location', fileUrl(receipt.key))
    .header('cache-control', 'no-store')
    .send(receiptJson(receipt));
}

/** Content-Length; undefined for a chunked body. Too long a body is refused unread. */
function announcedBytes({ headers }: FastifyRequest, limitBytes: number): number | undefined {
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

function groupOf({ headers }: FastifyRequest): string | undefined {
  const value = headers['x-affinity-group'];
  return value === undefined || value === '' ? undefined : headerText(String(value));
}

/** A client that asks first is told to go on only now that its headers are in order. */
function continueIfAsked(request: FastifyRequest, reply: FastifyReply): void {
  if (request.headers.expect !== undefined) reply.raw.writeContinue();
}
