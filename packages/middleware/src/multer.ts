/**
 * A storage engine for multer.
 *
 * @module @stevedore/middleware/multer
 */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import {
  isStoreError,
  type PutOptions,
  type Receipt,
  type Store,
  StoreError,
} from '@stevedore/client/connect';
import { fileType, headerText, typeByName } from './core/http/content-headers.js';
import { ProblemError } from './core/problems.js';
import { checkedBody } from './core/upload/content-check.js';
import {
  expiryOf,
  Rules,
  typeProblem,
  type UploadPolicy,
  type UploadRules,
} from './core/upload/policy.js';
import { asHttpError } from './mounted-files.js';
import { warnOfRequestTimeout } from './request-timeout.js';

/**
 * A storage engine for multer: each file of a form goes into the store as it arrives.
 * `request.file` then has `key`; the app defines `url`. If one file is refused, or the client
 * disconnects before the form is complete, none of the form's files stays.
 */

export type { UploadRules };

/** Additions to multer's own `request.file`. */
export type StoredPart = Omit<Receipt, 'size'>;

declare global {
  namespace Express {
    namespace Multer {
      interface File extends StoredPart {}
    }
  }
}

/** The part of `Express.Multer.File` that is used. */
interface IncomingPart {
  readonly originalname: string;
  readonly mimetype: string;
  readonly stream: Readable;
}

type Callback = (error?: unknown, info?: Partial<Receipt>) => void;

/** `multer.StorageEngine`, without a dependency on its package. */
export interface MulterStorage {
  _handleFile(request: IncomingMessage, file: IncomingPart, callback: Callback): void;
  _removeFile(
    request: IncomingMessage,
    file: object,
    callback: (error: Error | null) => void,
  ): void;
}

export function multerStorage(store: Store, policy: UploadRules = {}): MulterStorage {
  return new Engine(store, new Rules(policy));
}

/** One form in progress. */
interface Arriving {
  readonly policy: UploadPolicy;
  readonly expiry: Pick<PutOptions, 'expiresAt'>;
  readonly gone: AbortController;
  readonly keys: Set<string>;
  files: number;
}

class Engine implements MulterStorage {
  readonly #store: Store;
  readonly #rules: Rules;
  readonly #arriving = new WeakMap<IncomingMessage, Arriving>();

  constructor(store: Store, rules: Rules) {
    this.#store = store;
    this.#rules = rules;
  }

  _handleFile(request: IncomingMessage, file: IncomingPart, callback: Callback): void {
    this.#take(request, file).then(
      (receipt) => callback(null, receipt),
      (error: unknown) => {
        // The rest of the part still has to be read for the form to end.
        file.stream.resume();
        callback(asHttpError(error));
      },
    );
  }

  _removeFile(
    request: IncomingMessage,
    file: object,
    callback: (error: Error | null) => void,
  ): void {
    const { key } = file as { readonly key?: string };
    if (key === undefined) {
      callback(null);
      return;
    }
    this.#arriving.get(request)?.keys.delete(key);
    this.#remove(key).then(() => callback(null), callback);
  }

  async #take(request: IncomingMessage, file: IncomingPart): Promise<Receipt> {
    const arriving = this.#form(request);
    const { policy, expiry, gone, keys } = arriving;
    const name = nameOf(file);
    // Multer's parser calls parts so that have no type, or one that is no media type.
    const byName = file.mimetype === 'text/plain' ? typeByName(name) : undefined;
    const type = byName ?? fileType(file.mimetype, name);
    arriving.files += 1;
    if (arriving.files > (policy.maxFiles ?? Number.POSITIVE_INFINITY)) {
      const message = `Here at most ${policy.maxFiles} files can be uploaded at once.`;
      throw new ProblemError('too_many_files', message);
    }
    const refused = typeProblem(type, policy);
    if (refused) throw refused;
    const declaredType = policy.checkContent ? type : undefined;
    // A check's reason counts, whatever error the store makes of it.
    let failure: ProblemError | undefined;
    const fail = (problem: ProblemError): ProblemError => {
      failure ??= problem;
      return failure;
    };
    const body = declaredType
      ? checkedBody(file.stream, { declaredType, digests: undefined, fail })
      : file.stream;
    const receipt = await this.#store
      .put(body, {
        ...putOptions(policy),
        ...expiry,
        name,
        type,
        signal: gone.signal,
      })
      .catch((error: unknown) => {
        throw failure ?? error;
      });
    if (gone.signal.aborted) {
      await this.#remove(receipt.key);
      throw new StoreError('aborted', 'the client closed the connection before the form was whole');
    }
    keys.add(receipt.key);
    return receipt;
  }

  #form(request: IncomingMessage): Arriving {
    const known = this.#arriving.get(request);
    if (known) return known;
    warnOfRequestTimeout(request);
    const policy = this.#rules.of(request, randomBytes(12).toString('base64url'));
    const arriving: Arriving = {
      policy,
      expiry: expiryOf(request.headers, policy, Date.now()),
      gone: new AbortController(),
      keys: new Set(),
      files: 0,
    };
    this.#arriving.set(request, arriving);
    request.once('close', () => {
      if (!request.complete) this.#abandon(arriving);
    });
    return arriving;
  }

  /** The client left: stops files that are arriving, and removes those that have arrived. */
  #abandon({ gone, keys }: Arriving): void {
    gone.abort(new Error('the client closed the connection'));
    for (const key of keys) this.#remove(key).catch(() => undefined);
    keys.clear();
  }

  /** Another request may have been first. */
  async #remove(key: string): Promise<void> {
    try {
      await this.#store.delete(key);
    } catch (error) {
      if (!isStoreError(error, 'not_found')) throw error;
    }
  }
}

function putOptions({ maxFileBytes: maxBytes, durability, group }: UploadPolicy): PutOptions {
  return { maxBytes, durability, group };
}

/** The parser reads names as Latin-1 by default; browsers send UTF-8. */
function nameOf({ originalname }: IncomingPart): string {
  const isBytes = !/[^\x00-\xff]/.test(originalname);
  return isBytes ? headerText(originalname) : originalname;
}
