import { createHash, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isStoreError, StoreError } from '@stevedore/client';
import { invalidOption, parseTime } from '@stevedore/client/internal';
import { option } from '@stevedore/options';
import {
  changeFile,
  readJson,
  replaceFile,
  WatchedFile,
  type WatchedFileOptions,
} from './watched-file.js';

/**
 * API keys and their file. A key is `stv_ID_SECRET`; only the SHA-256 of its secret is stored,
 * which is enough for 256 random bits. Pure, except for the randomness of new keys.
 *
 * { "keys": [{ "id", "name", "hash", "scopes", "createdAt", "expiresAt"?, "requestsPerSecond"?,
 * "bytesPerDay"? }] }
 */

/** What a new key may do unless its maker says otherwise. */
const FILE_SCOPES = ['read', 'write', 'delete', 'list'] as const;
/** `admin`: makes, limits and revokes API keys, sees the policies, and has staged files stored. */
export const SCOPES = [...FILE_SCOPES, 'admin'] as const;
export type Scope = (typeof SCOPES)[number];

export interface ApiKey {
  readonly id: string;
  readonly name: string;
  /** SHA-256 of the secret, base64url. */
  readonly hash: string;
  readonly scopes: readonly Scope[];
  /** RFC 3339. */
  readonly createdAt: string;
  readonly expiresAt?: string;
  readonly requestsPerSecond?: number | undefined;
  /** Bytes that may be uploaded per day (UTC). */
  readonly bytesPerDay?: number | undefined;
}

const ID_BYTES = 9;
const SECRET_BYTES = 32;
const KEY = /^stv_([A-Za-z0-9]{12})_([A-Za-z0-9_-]{43})$/;
const MAX_KEYS = 100_000;

/** What is said of a key when it is made, by the command and by the console. */
export const keyOptions = {
  scopes: option.list(FILE_SCOPES, `what the key may do: some of ${SCOPES.join(', ')}`),
  expiresIn: option.duration(0, 'when it ends; 0: never'),
  requestsPerSecond: option.integer(0, 'most requests per second; 0: no limit'),
  bytesPerDay: option.size(0, 'most bytes to upload per UTC day; 0: no limit'),
};

interface KeyOptionValues {
  readonly scopes: readonly string[];
  readonly expiresIn: number;
  readonly requestsPerSecond: number;
  readonly bytesPerDay: number;
}

/** Throws `invalid_option`. */
export function keyFacts(options: KeyOptionValues, now: Date) {
  const { scopes, expiresIn, requestsPerSecond, bytesPerDay } = options;
  const wrong = scopes.find((scope) => !(SCOPES as readonly string[]).includes(scope));
  if (wrong !== undefined) throw invalidOption(`"${wrong}" is not one of ${SCOPES.join(', ')}`);
  return {
    scopes: scopes as readonly Scope[],
    ...(expiresIn === 0 ? {} : { expiresAt: new Date(now.getTime() + expiresIn).toISOString() }),
    ...(requestsPerSecond === 0 ? {} : { requestsPerSecond }),
    ...(bytesPerDay === 0 ? {} : { bytesPerDay }),
  };
}

export interface NewApiKey {
  readonly key: ApiKey;
  /** Shown once; it cannot be recovered later. */
  readonly text: string;
}

export function makeApiKey(
  about: Omit<ApiKey, 'id' | 'hash' | 'createdAt'>,
  now: Date,
  random: (bytes: number) => Buffer = randomBytes,
): NewApiKey {
  // Replaces the two characters that are not letters or digits, so that a double click selects all
  // of it.
  const id = random(ID_BYTES).toString('base64url').replace(/[-_]/g, 'x');
  const secret = random(SECRET_BYTES).toString('base64url');
  const key: ApiKey = { id, hash: hashOf(secret), createdAt: now.toISOString(), ...about };
  return { key, text: `stv_${id}_${secret}` };
}

interface PresentedKey {
  readonly id: string;
  readonly secret: string;
}

/** Undefined for anything that does not have the form of a key. */
function parseApiKey(text: string): PresentedKey | undefined {
  const [, id, secret] = KEY.exec(text) ?? [];
  return id === undefined || secret === undefined ? undefined : { id, secret };
}

/** A key by its text alone; undefined for anything that does not have the form of one. */
export function keyOfText(text: string, scopes: readonly Scope[]): ApiKey | undefined {
  const found = parseApiKey(text);
  if (!found) return undefined;
  const { id, secret } = found;
  return { id, name: '', hash: hashOf(secret), scopes, createdAt: '' };
}

/** True for the text of this key; in constant time. */
export function isTextOf(key: ApiKey, text: string): boolean {
  const found = parseApiKey(text);
  return found !== undefined && isSecretOf(key, found.secret) && found.id === key.id;
}

function isSecretOf(key: ApiKey, secret: string): boolean {
  const expected = Buffer.from(key.hash, 'base64url');
  const given = hash('sha256', secret, 'buffer');
  return expected.length === given.length && timingSafeEqual(expected, given);
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url');
}

export function formatKeyFile(keys: readonly ApiKey[]): string {
  return `${JSON.stringify({ keys }, null, 2)}\n`;
}

/** Throws `invalid_option`. */
export function parseKeyFile(text: string, path: string): ApiKey[] {
  const content = readJson(text, path) as { readonly keys?: unknown } | null;
  if (!Array.isArray(content?.keys) || content.keys.length > MAX_KEYS) {
    throw invalidOption(`${path}: an object with a list "keys" is needed`);
  }
  const seen = new Set<string>();
  return content.keys.map((value: unknown, index) => {
    const key = checkKey(value, `${path}: key ${index + 1}`);
    if (seen.has(key.id)) throw invalidOption(`${path}: ${key.id} is there twice`);
    seen.add(key.id);
    return key;
  });
}

function checkKey(value: unknown, where: string): ApiKey {
  const key = (value ?? {}) as Record<string, unknown>;
  const demand = (condition: boolean, what: string): void => {
    if (!condition) throw invalidOption(`${where}: ${what}`);
  };
  demand(/^[A-Za-z0-9]{12}$/.test(String(key.id)), 'id has 12 letters and digits');
  demand(typeof key.name === 'string', 'name is a text');
  const hash = Buffer.from(String(key.hash), 'base64url');
  demand(hash.length === SECRET_BYTES, 'hash is a SHA-256 in base64url');
  const scopes: readonly unknown[] = Array.isArray(key.scopes) ? key.scopes : [];
  const known = scopes.every((scope) => (SCOPES as readonly unknown[]).includes(scope));
  demand(scopes.length > 0 && known, `scopes are some of ${SCOPES.join(', ')}`);
  demand(isDate(key.createdAt), 'createdAt is a date');
  demand(key.expiresAt === undefined || isDate(key.expiresAt), 'expiresAt is a date');
  for (const name of ['requestsPerSecond', 'bytesPerDay'] as const) {
    const number = key[name];
    demand(number === undefined || (typeof number === 'number' && number > 0), `${name} is > 0`);
  }
  return Object.freeze({ ...key }) as unknown as ApiKey;
}

function isDate(value: unknown): boolean {
  return typeof value === 'string' && parseTime(value) !== undefined;
}

/** A missing file has no keys. Rejects with `invalid_option`. */
export async function readKeyFile(path: string): Promise<ApiKey[]> {
  try {
    return parseKeyFile(await readFile(path, 'utf8'), path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

export function writeKeyFile(path: string, keys: readonly ApiKey[]): Promise<void> {
  return replaceFile(path, formatKeyFile(keys));
}

type KeyChange = (keys: readonly ApiKey[]) => readonly ApiKey[];

/** As `KeyRing.change`, without a gateway; makes the file. */
export function changeKeyFile(path: string, change: KeyChange): Promise<void> {
  return changeFile(path, async () => formatKeyFile(change(await readKeyFile(path))));
}

export interface KeyRingOptions extends Omit<WatchedFileOptions<unknown>, 'parse'> {
  readonly now: () => number;
}

/** Most verified keys to remember. */
const MAX_SHOWN = 1000;

/** Compared with an unknown key's secret, so that both cases take the same time. */
const NOBODY: ApiKey = {
  id: 'nobody',
  name: '',
  hash: 'A'.repeat(43),
  scopes: [],
  createdAt: '',
};

type Keys = ReadonlyMap<string, ApiKey>;

/** The API keys of a file, as it is now. */
export class KeyRing {
  readonly file: WatchedFile<Keys>;
  readonly #now: () => number;
  /** Keys that were verified; they are not hashed again until the file changes. */
  readonly #shown = new Map<string, ApiKey>();
  #shownVersion = 1;

  private constructor(file: WatchedFile<Keys>, now: () => number) {
    this.file = file;
    this.#now = now;
  }

  /** Rejects with `invalid_option` if the file is missing or malformed. */
  static async open({ now, ...options }: KeyRingOptions): Promise<KeyRing> {
    const parse = (text: string, path: string): Keys =>
      new Map(parseKeyFile(text, path).map((key) => [key.id, key]));
    try {
      return new KeyRing(await WatchedFile.open({ ...options, parse }), now);
    } catch (error) {
      if (isStoreError(error)) throw error;
      const message = `apiKeys: ${(error as Error).message}; stevedore keys add makes the file`;
      throw new StoreError('invalid_option', message, { cause: error });
    }
  }

  /** Undefined for a key that is malformed, unknown or expired. */
  find(text: string): ApiKey | undefined {
    if (this.#shownVersion !== this.file.version) this.#shown.clear();
    this.#shownVersion = this.file.version;
    const key = this.#shown.get(text) ?? this.#check(text);
    const expiresAt = key?.expiresAt === undefined ? undefined : parseTime(key.expiresAt);
    return expiresAt && +expiresAt <= this.#now() ? undefined : key;
  }

  #check(text: string): ApiKey | undefined {
    const presented = parseApiKey(text);
    if (!presented) return undefined;
    const key = this.file.content.get(presented.id);
    if (!isSecretOf(key ?? NOBODY, presented.secret) || !key) return undefined;
    if (this.#shown.size >= MAX_SHOWN) this.#shown.clear();
    this.#shown.set(text, key);
    return key;
  }

  has(id: string): boolean {
    return this.file.content.has(id);
  }

  /** In the order of the file. */
  list(): readonly ApiKey[] {
    return [...this.file.content.values()];
  }

  /** Changes the file, and takes the change at once. Rejects with the system's error. */
  change(change: KeyChange): Promise<void> {
    return this.file.change((keys) => formatKeyFile(change([...keys.values()])));
  }
}
