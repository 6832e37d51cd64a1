import type { Receipt, Store, StoredFile } from '@stevedore/client';
import {
  type PictureMaker,
  ProblemError,
  type Query,
  type ShownPicture,
} from '@stevedore/middleware/core';
import { Encoders } from './encoders.js';
import { RefusedPictures } from './refused-pictures.js';
import {
  type AskedVariant,
  askedVariant,
  isSameSize,
  mediaType,
  parseSize,
  type Size,
  type Variant,
  variantMark,
} from './variant.js';

/**
 * Pictures of a store in other sizes and formats. Each is made once, by the first request, and is a
 * derived file of the store itself, for `maxAgeMs`: the store deletes it with its original, and the
 * oldest when there are too many. A client needs permission to read the original.
 */

export interface PictureOptions {
  readonly store: Store;
  /** Sizes that anyone may request: `320`, `x200`, `640x480`. Signed URLs may request any size. */
  readonly sizes: readonly string[];
  /** Processes that make pictures; default 2. */
  readonly processes?: number;
  /** Requests that wait for a process, shared by the clients; default 64. */
  readonly maxWaiting?: number;
  /** Most pixels of an original; default 50 million. */
  readonly maxPixels?: number;
  /** Longest side of an original; default 32,768. */
  readonly maxSidePixels?: number;
  /** Largest original; default 32 MiB. */
  readonly maxBytes?: number;
  /** Memory of one process; default 768 MiB. */
  readonly maxMemoryBytes?: number;
  /** Timeout for one picture; default 10 s. */
  readonly timeoutMs?: number;
  /** A picture is made anew after this time; default 30 days. */
  readonly maxAgeMs?: number;
  readonly now?: () => number;
}

const DAY_MS = 86_400_000;
const REFUSED = { maxEntries: 10_000, maxAgeMs: 600_000 };
const FOR_EVER = Number.MAX_SAFE_INTEGER;

export class Pictures implements PictureMaker {
  readonly #store: Store;
  readonly #sizes: readonly Size[];
  readonly #encoders: Encoders;
  readonly #maxBytes: number;
  readonly #maxAgeMs: number;
  readonly #now: () => number;
  /** Pictures in progress by their marks: concurrent requests share them. */
  readonly #underWay = new Map<string, Promise<Receipt>>();
  readonly #refused: RefusedPictures;

  /** Throws TypeError for an invalid size. */
  constructor(options: PictureOptions) {
    const { store, sizes, maxBytes = 32 * 2 ** 20, maxAgeMs = 30 * DAY_MS } = options;
    this.#store = store;
    this.#maxBytes = maxBytes;
    this.#maxAgeMs = maxAgeMs;
    this.#now = options.now ?? Date.now;
    this.#refused = new RefusedPictures(REFUSED, this.#now);
    this.#sizes = sizes.map((text) => {
      const size = parseSize(text);
      if (!size) throw new TypeError(`"${text}" is no size; write 320, x200 or 640x480`);
      return size;
    });
    this.#encoders = new Encoders({
      processes: options.processes ?? 2,
      maxWaiting: options.maxWaiting ?? 64,
      timeoutMs: options.timeoutMs ?? 10_000,
      maxPixels: options.maxPixels ?? 50_000_000,
      maxSidePixels: options.maxSidePixels ?? 32_768,
      maxMemoryBytes: options.maxMemoryBytes ?? 768 * 2 ** 20,
    });
  }

  /**
   * The variant that the query requests; undefined if it is the file itself. Rejects with
   * `bad_request`, `picture_size_not_allowed`, and as `Encoders.encode`.
   */
  async shown(
    query: Query,
    accept: string | undefined,
    original: StoredFile,
    mayAnySize: boolean,
    client: string,
  ): Promise<ShownPicture | undefined> {
    const asked = askedVariant(query, accept);
    if (!asked) return undefined;
    if (!mayAnySize && !this.#sizes.some((size) => isSameSize(size, asked))) {
      const message = 'Pictures of this size are not made here, but for signed URLs.';
      throw new ProblemError('picture_size_not_allowed', message);
    }
    const { key } = original;
    if (key === undefined || original.pictureOf !== undefined) {
      const message = 'A picture is made of a file that has a key and is none itself.';
      throw new ProblemError('picture_unsupported', message);
    }
    const file = await this.#file(key, original, asked, client);
    return { file, isNegotiated: asked.isNegotiated };
  }

  close(): void {
    this.#encoders.close();
  }

  async #file(
    key: string,
    original: StoredFile,
    asked: AskedVariant,
    client: string,
  ): Promise<StoredFile> {
    const mark = variantMark(key, asked);
    const name = mark.toString('base64url');
    const underWay = this.#underWay.get(name);
    if (underWay) return this.#store.get((await underWay).key);
    const making = this.#store
      .findOnce(mark, { withinMs: FOR_EVER })
      .then(([found]) => found ?? this.#make(mark, key, original, asked, client));
    this.#underWay.set(name, making);
    try {
      return await this.#store.get((await making).key);
    } finally {
      this.#underWay.delete(name);
    }
  }

  async #make(
    once: Buffer,
    key: string,
    original: StoredFile,
    variant: Variant,
    client: string,
  ): Promise<Receipt> {
    if (original.size > this.#maxBytes) {
      const message = `The file has ${original.size} bytes; pictures are made of at most ${this.#maxBytes}.`;
      throw new ProblemError('picture_too_costly', message);
    }
    const name = once.toString('base64url');
    this.#refused.demandNone(name);
    const read = () => original.bytes();
    const bytes = await this.#encoders.encode(read, variant, client).catch((error: unknown) => {
      this.#refused.add(name, error);
      throw error;
    });
    return this.#store.put(bytes, {
      name: renamed(original.name, variant),
      type: mediaType(variant),
      group: original.group ?? key,
      pictureOf: key,
      once,
      expiresAt: new Date(this.#now() + this.#maxAgeMs),
    });
  }
}

/** `photo.jpg` as `photo.avif`. */
function renamed(name: string, { format }: Variant): string {
  if (name === '') return '';
  return `${name.replace(/\.[^./]*$/, '')}.${format === 'jpeg' ? 'jpg' : format}`;
}
