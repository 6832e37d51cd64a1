import { randomBytes } from 'node:crypto';
import { MAX_GROUP_BYTES } from '@stevedore/staging/text-limits';
import { withOwnNames } from '../put/body-kinds.js';
import { checkMeta, checkText } from '../put/intake.js';
import type { PutAllOptions, PutPart } from '../store/types.js';
import { checkedType, Source } from './sources.js';

/**
 * Encodes several files as one form, of which the gateway stores all files or none. Pulls the parts
 * from the caller one by one. A part's own headers carry what form fields cannot.
 */
export class FormBody implements AsyncIterable<Uint8Array> {
  readonly type: string;
  readonly #boundary = `stevedore-${randomBytes(18).toString('hex')}`;
  readonly #parts: AsyncIterator<PutPart> | Iterator<PutPart>;
  readonly #first: PutPart;
  readonly #options: Pick<PutAllOptions, 'group' | 'signal'>;
  /** Size and CRC-32 that were sent for each part. */
  readonly sums: { readonly size: number; readonly crc32: number }[] = [];
  #source: Source | undefined;
  /** Why the form could not be completed. */
  failure: unknown;

  private constructor(
    parts: AsyncIterator<PutPart> | Iterator<PutPart>,
    first: PutPart,
    options: Pick<PutAllOptions, 'group' | 'signal'>,
  ) {
    this.type = `multipart/form-data; boundary=${this.#boundary}`;
    this.#parts = parts;
    this.#first = first;
    this.#options = options;
  }

  /** Undefined if there are no parts: a form needs one. */
  static async of(
    parts: Iterable<PutPart> | AsyncIterable<PutPart>,
    options: Pick<PutAllOptions, 'group' | 'signal'>,
  ): Promise<FormBody | undefined> {
    const all =
      Symbol.asyncIterator in parts ? parts[Symbol.asyncIterator]() : parts[Symbol.iterator]();
    const { done, value } = await all.next();
    return done ? undefined : new FormBody(all, value, options);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (let part: PutPart = this.#first; ; ) {
        yield* this.#part(part);
        const { done, value } = await this.#parts.next();
        if (done) break;
        part = value;
      }
      const { group } = this.#options;
      const name = typeof group === 'function' ? group() : group;
      if (name !== undefined) {
        yield this.#head('name="group"', {});
        yield Buffer.from(`${checkText('group', name, MAX_GROUP_BYTES)}\r\n`);
      }
      yield Buffer.from(`--${this.#boundary}--\r\n`);
    } catch (error) {
      this.failure = error;
      throw error;
    }
  }

  /** Stops the current body and pulls no more parts. */
  stop(): void {
    this.#source?.stop();
    // Not awaited: it may never settle.
    void Promise.resolve(this.#parts.return?.()).catch(() => undefined);
  }

  async *#part({ body, ...rest }: PutPart): AsyncGenerator<Uint8Array> {
    const { signal } = this.#options;
    const { name, type, expiresAt } = checkMeta(withOwnNames(body, rest));
    const source = new Source(body, signal ? { ...rest, signal } : rest);
    this.#source = source;
    yield this.#head('name="file"; filename=""', {
      'Content-Type': checkedType(type),
      'X-Filename': encodeURIComponent(name),
      ...(expiresAt === undefined ? {} : { 'X-Expires-At': new Date(expiresAt).toISOString() }),
    });
    yield* source;
    this.sums.push(source.sums);
    yield Buffer.from('\r\n');
  }

  #head(disposition: string, headers: Readonly<Record<string, string>>): Buffer {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const head = `Content-Disposition: form-data; ${disposition}\r\n${lines.join('')}`;
    return Buffer.from(`--${this.#boundary}\r\n${head}\r\n`);
  }
}
