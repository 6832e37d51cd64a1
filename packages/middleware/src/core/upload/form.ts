import { randomBytes } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { PutOptions, PutPart } from '@stevedore/client';
import {
  checkName,
  DEFAULT_TYPE,
  fileType,
  headerText,
  mediaType,
  parseDisposition,
  percentName,
} from '../http/content-headers.js';
import type { TransferLimits } from '../limits.js';
import { ProblemError } from '../problems.js';
import { checkedBody } from './content-check.js';
import { digestCheck } from './digests.js';
import { type FormPart, FormParts } from './form-parts.js';
import { expiryOf, typeProblem, type UploadPolicy } from './policy.js';
import { type RequestBody, tooLarge } from './request-body.js';

/**
 * A form: its files, of which the store takes all or none, and their affinity group. A part with a
 * file name is a file; the field `group` names the group, wherever it is in the form.
 */
export interface FormOptions {
  /** Affinity group, unless the form names one; empty: the files have none. */
  readonly group?: string | undefined;
  readonly policy?: UploadPolicy;
  readonly expiry?: Pick<PutOptions, 'expiresAt'>;
}

export class Form {
  readonly #body: RequestBody;
  readonly #parts: FormParts;
  readonly #limits: TransferLimits;
  readonly #policy: UploadPolicy;
  readonly #expiry: Pick<PutOptions, 'expiresAt'>;
  #files = 0;
  /** Of all files so far. */
  #fileBytes = 0;
  #group: string | undefined;

  constructor(
    body: RequestBody,
    boundary: string,
    limits: TransferLimits,
    options: FormOptions = {},
  ) {
    this.#body = body;
    this.#parts = new FormParts(body, boundary, limits);
    this.#limits = limits;
    this.#group = options.group;
    this.#policy = options.policy ?? {};
    this.#expiry = options.expiry ?? {};
  }

  /** Complete once `files` has ended: the form's group, or a group of its own; undefined: none. */
  readonly group = (): string | undefined => {
    if (this.#files > 1) this.#group ??= randomBytes(12).toString('base64url');
    return this.#group || undefined;
  };

  async *files(): AsyncGenerator<PutPart, void, undefined> {
    for await (const part of this.#parts.parts()) {
      const file = await this.#fileOf(part);
      if (!file) continue;
      this.#files += 1;
      this.#checkCount();
      yield file;
    }
    if (this.#files === 0) {
      throw this.#body.fail(new ProblemError('no_file', 'The form contains no file.'));
    }
  }

  async #fileOf(part: FormPart): Promise<PutPart | undefined> {
    const disposition = parseDisposition(part.headers['content-disposition']?.[0] ?? '');
    if (disposition?.kind !== 'form-data') {
      throw this.#fail('malformed_multipart', 'A part has no Content-Disposition: form-data.');
    }
    this.#demandPlain(part);
    const declared = part.headers['content-type']?.[0];
    const { filename } = disposition;
    const ownName = part.headers['x-filename']?.[0];
    if (filename === undefined && mediaType(declared) !== DEFAULT_TYPE) {
      await this.#readField(disposition.name, part.content);
      return undefined;
    }
    const name = this.#own(() => percentName(ownName)) ?? unescapeName(filename ?? '');
    const problem = checkName(name, this.#limits);
    if (problem) throw this.#body.fail(problem);
    // Browsers send this for a file field without a file.
    if (name === '' && ownName === undefined && (await isEmpty(part.content))) return undefined;
    const type = fileType(declared, name);
    const refused = typeProblem(type, this.#policy);
    if (refused) throw this.#body.fail(refused);
    return {
      body: this.#checked(part, type),
      name,
      type,
      maxBytes: this.#limits.maxFileBytes,
      transfer: true,
      ...this.#expiry,
      ...(part.headers['x-expires-at']
        ? this.#own(() => expiryOf(part.headers, this.#policy, Date.now()))
        : {}),
    };
  }

  /** Encodings that change nothing are common (RFC 7578, section 4.7); any other would be lost. */
  #demandPlain({ headers }: FormPart): void {
    const coding = headers['content-transfer-encoding']?.join().trim() ?? 'binary';
    if (/^(?:7bit|8bit|binary)$/i.test(coding)) return;
    const message = 'A part is stored as it is: send it without Content-Transfer-Encoding.';
    throw this.#body.fail(new ProblemError('unsupported_encoding', message));
  }

  /** A part may have its own checksums. */
  #checked(part: FormPart, type: string): PutPart['body'] {
    const declaredType = this.#policy.checkContent ? type : undefined;
    const digests = this.#own(() => digestCheck(part.headers));
    const content = this.#counted(part.content);
    if (declaredType === undefined && !digests) return content;
    const fail = (problem: ProblemError): ProblemError => this.#body.fail(problem);
    return checkedBody(content, { declaredType, digests, fail });
  }

  async *#counted(content: Readable): AsyncGenerator<Buffer, void, undefined> {
    const { maxTotalBytes = Number.POSITIVE_INFINITY } = this.#policy;
    for await (const chunk of content as AsyncIterable<Buffer>) {
      this.#fileBytes += chunk.length;
      if (this.#fileBytes > maxTotalBytes) throw this.#body.fail(tooLarge(maxTotalBytes));
      await this.#body.take(chunk.length);
      yield chunk;
    }
  }

  /** Headers of a part. */
  #own<Result>(read: () => Result): Result {
    try {
      return read();
    } catch (error) {
      throw error instanceof ProblemError ? this.#body.fail(error) : error;
    }
  }

  #checkCount(): void {
    const { maxFiles } = this.#policy;
    if (maxFiles === undefined || this.#files <= maxFiles) return;
    const message = `Here at most ${maxFiles} files can be uploaded at once.`;
    throw this.#body.fail(new ProblemError('too_many_files', message));
  }

  async #readField(name: string | undefined, content: Readable): Promise<void> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of content as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > this.#limits.maxFieldBytes) {
        const limit = `${this.#limits.maxFieldBytes} bytes`;
        throw this.#fail('field_too_large', `A field may have at most ${limit}.`);
      }
      chunks.push(chunk);
    }
    if (name !== 'group') return;
    const group = headerText(Buffer.concat(chunks).toString('latin1'));
    if (group !== '' && this.#policy.group === undefined) this.#group = group;
  }

  #fail(code: 'malformed_multipart' | 'field_too_large', message: string): ProblemError {
    return this.#body.fail(new ProblemError(code, message));
  }
}

/** The boundary of a Content-Type; undefined if there is none, or it is not allowed. */
export function boundaryOf(contentType: string): string | undefined {
  const match =
    /;[ \t]*boundary=(?:"([^"\\]{1,70})"|([A-Za-z0-9'()+_,./:=?-]{1,70})(?=[ \t]*(?:;|$)))/i.exec(
      contentType,
    );
  return match?.[1] ?? match?.[2];
}

/** Browsers escape these three characters in names, and no others (HTML, form submission). */
function unescapeName(name: string): string {
  return name.replace(/%22|%0D|%0A/gi, (escaped) => decodeURIComponent(escaped));
}

async function isEmpty(content: Readable): Promise<boolean> {
  for (;;) {
    if (content.readableLength > 0) return false;
    if (content.readableEnded || content.destroyed) return true;
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        for (const event of ['readable', 'end', 'close']) content.off(event, wake);
        resolve();
      };
      for (const event of ['readable', 'end', 'close']) content.on(event, wake);
    });
    // A stream notices its end only if it is read.
    if (content.readableLength === 0) content.read();
  }
}
