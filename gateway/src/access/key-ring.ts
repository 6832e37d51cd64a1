import { readFile, stat } from 'node:fs/promises';
import { isStoreError, StoreError } from '@stevedore/client';
import { type ApiKey, isSecretOf, parseApiKey, parseKeyFile } from './api-keys.js';

/**
 * The API keys of a file, read again when the file changes: a key is added, ended
 * or replaced without a restart. A file that cannot be read or is malformed changes nothing:
 * the known keys stay, and the error is reported once.
 */

const LOOK_INTERVAL_MS = 1000;

export interface KeyRingOptions {
  readonly path: string;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
  readonly lookIntervalMs?: number;
}

/** Verified keys that are remembered. */
const MAX_SHOWN = 1000;

/** Compared with when there is no such key, so that both cases take the same time. */
const NOBODY: ApiKey = {
  id: 'nobody',
  name: '',
  hash: 'A'.repeat(43),
  scopes: [],
  createdAt: '',
};

export class KeyRing {
  readonly #options: KeyRingOptions;
  readonly #timer: NodeJS.Timeout;
  #keys: ReadonlyMap<string, ApiKey>;
  /** Keys that were presented and verified; until the file changes they are not hashed again. */
  readonly #shown = new Map<string, ApiKey>();
  #fileVersion: string;
  /** Counts the times the keys changed. */
  version = 1;
  #looking = false;
  #troubled = false;

  private constructor(options: KeyRingOptions, keys: readonly ApiKey[], version: string) {
    this.#options = options;
    this.#keys = byId(keys);
    this.#fileVersion = version;
    const interval = options.lookIntervalMs ?? LOOK_INTERVAL_MS;
    this.#timer = setInterval(() => void this.look(), interval).unref();
  }

  /** Rejects with `invalid_option` when the file is missing or malformed. */
  static async open(options: KeyRingOptions): Promise<KeyRing> {
    try {
      const version = await versionOf(options.path);
      const keys = parseKeyFile(await readFile(options.path, 'utf8'), options.path);
      return new KeyRing(options, keys, version);
    } catch (error) {
      if (isStoreError(error)) throw error;
      const message = `apiKeys: ${(error as Error).message}; stevedore keys add makes the file`;
      throw new StoreError('invalid_option', message, { cause: error });
    }
  }

  get size(): number {
    return this.#keys.size;
  }

  /** Undefined for a key that is malformed, unknown or expired. */
  find(text: string): ApiKey | undefined {
    const key = this.#shown.get(text) ?? this.#check(text);
    if (key?.expiresAt !== undefined && Date.parse(key.expiresAt) <= this.#options.now()) {
      return undefined;
    }
    return key;
  }

  #check(text: string): ApiKey | undefined {
    const presented = parseApiKey(text);
    if (!presented) return undefined;
    const key = this.#keys.get(presented.id);
    if (!isSecretOf(key ?? NOBODY, presented.secret) || !key) return undefined;
    if (this.#shown.size >= MAX_SHOWN) this.#shown.clear();
    this.#shown.set(text, key);
    return key;
  }

  has(id: string): boolean {
    return this.#keys.has(id);
  }

  /** Reads the file again if it has changed. */
  async look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    const { path, onError } = this.#options;
    try {
      const version = await versionOf(path);
      if (version === this.#fileVersion) return;
      this.#keys = byId(parseKeyFile(await readFile(path, 'utf8'), path));
      this.#shown.clear();
      this.#fileVersion = version;
      this.version += 1;
      this.#troubled = false;
    } catch (error) {
      if (!this.#troubled) onError(error);
      this.#troubled = true;
    } finally {
      this.#looking = false;
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

/** Another file, another content or another time is another version. */
async function versionOf(path: string): Promise<string> {
  const { ino, size, mtimeNs } = await stat(path, { bigint: true });
  return `${ino}-${size}-${mtimeNs}`;
}

function byId(keys: readonly ApiKey[]): Map<string, ApiKey> {
  return new Map(keys.map((key) => [key.id, key]));
}
