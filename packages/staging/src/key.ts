import { KEY_BYTES } from './container/record.js';

/**
 * Keys: 48-bit milliseconds, 16-bit origin, 64 random bits, written as 22 base64url characters.
 * Ordered by time, so that the FileMap appends; unguessable, so that a key is a capability.
 */

/** Characters of a key's text. */
export const KEY_CHARS = 22;
const KEY_TEXT = /^[A-Za-z0-9_-]{21}[AQgw]$/;
const RANDOM_BYTES = 8;
const POOLED_KEYS = 512;

export interface KeySources {
  readonly now: () => number;
  /** Fills the buffer with unpredictable bytes. */
  readonly randomFill: (target: Buffer) => void;
}

/** Makes keys of one origin. */
export class KeyMaker {
  readonly #origin: number;
  readonly #sources: KeySources;
  readonly #pool = Buffer.alloc(POOLED_KEYS * RANDOM_BYTES);
  #used = this.#pool.length;

  constructor(origin: number, sources: KeySources) {
    this.#origin = origin;
    this.#sources = sources;
  }

  next(): Buffer {
    // One call for many bytes costs a tenth of a call per key.
    if (this.#used === this.#pool.length) {
      this.#sources.randomFill(this.#pool);
      this.#used = 0;
    }
    const key = Buffer.allocUnsafe(KEY_BYTES);
    key.writeUIntBE(this.#sources.now(), 0, 6);
    key.writeUInt16BE(this.#origin, 6);
    // Quicker than a copy by the runtime.
    for (let at = 8; at < KEY_BYTES; at += 1) key[at] = this.#pool[this.#used++] ?? 0;
    return key;
  }
}

export function formatKey(key: Buffer): string {
  return key.toString('base64url');
}

/** A key or the id of a task as that of a Map. */
export function nameOf(key: Buffer): string {
  return key.toString('latin1');
}

/** The 16 bytes of a key's text; undefined if the text is not a key. */
export function parseKey(text: string): Buffer | undefined {
  return KEY_TEXT.test(text) ? Buffer.from(text, 'base64url') : undefined;
}

/** When the key was made, in Unix milliseconds. */
export function timeOfKey(key: Buffer): number {
  return key.readUIntBE(0, 6);
}
