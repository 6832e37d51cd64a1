import { createHash, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { open, readFile, rename, rm, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { invalidOption, isStoreError, StoreError } from '@stevedore/client';
import { option } from '@stevedore/options';

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
  /** ISO 8601. */
  readonly createdAt: string;
  readonly expiresAt?: string;
  readonly requestsPerSecond?: number;
  /** Bytes that may be uploaded per day (UTC). */
  readonly bytesPerDay?: number;
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

function readJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalidOption(`${path}: ${(error as Error).message}`);
  }
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
  return typeof value === 'string' && !Number.isNaN(Date.parse(value));
}

/**
 * The file of API keys, always replaced as a whole: the new content is synced under another name
 * and then renamed, so that a gateway never reads half of it. Only its owner may read it.
 */

/** A missing file has no keys. Rejects with `invalid_option`. */
export async function readKeyFile(path: string): Promise<ApiKey[]> {
  try {
    return parseKeyFile(await readFile(path, 'utf8'), path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

export async function writeKeyFile(path: string, keys: readonly ApiKey[]): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}`;
  const replaced = await stat(path).catch(() => undefined);
  try {
    const file = await open(temporary, 'wx', 0o600);
    try {
      // Root may run the command for a gateway that is another user.
      if (replaced && process.getuid?.() === 0) await file.chown(replaced.uid, replaced.gid);
      if (replaced) await file.chmod(replaced.mode);
      await file.writeFile(formatKeyFile(keys));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

const LOCK_STALE_MS = 10_000;
const LOCK_PAUSE_MS = 20;
const LOCK_LIMIT_MS = 15_000;

/**
 * Reads the file, and writes what `change` makes of it. Meanwhile no other change is made, by this
 * process or another: none gets lost. The lock of a process that died is taken over.
 */
export async function changeKeyFile(
  path: string,
  change: (keys: readonly ApiKey[]) => readonly ApiKey[],
): Promise<void> {
  const lock = `${path}.lock`;
  await takeLock(lock);
  try {
    await writeKeyFile(path, change(await readKeyFile(path)));
  } finally {
    await rm(lock, { force: true });
  }
}

async function takeLock(lock: string): Promise<void> {
  const end = performance.now() + LOCK_LIMIT_MS;
  for (;;) {
    try {
      return await (await open(lock, 'wx', 0o600)).close();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const { mtimeMs } = await stat(lock).catch(() => ({ mtimeMs: Date.now() }));
    // The clock may have been set back since.
    if (Math.abs(Date.now() - mtimeMs) > LOCK_STALE_MS) await rm(lock, { force: true });
    else if (performance.now() < end) await sleep(LOCK_PAUSE_MS);
    else throw new StoreError('directory_locked', `${lock} is held by another program`);
  }
}

/**
 * The API keys of a file, reloaded when the file changes, so keys change without a restart. If the
 * file cannot be read or is malformed, the known keys stay in force and the error is reported once.
 */

const LOOK_INTERVAL_MS = 1000;

export interface KeyRingOptions {
  readonly path: string;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
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

export class KeyRing {
  readonly #options: KeyRingOptions;
  #timer: NodeJS.Timeout | undefined;
  #keys: ReadonlyMap<string, ApiKey>;
  /** Keys that were verified; they are not hashed again until the file changes. */
  readonly #shown = new Map<string, ApiKey>();
  #fileVersion: string;
  /** Number of times that the keys changed. */
  version = 1;
  #looking: Promise<void> | undefined;
  #troubled = false;

  private constructor(options: KeyRingOptions, keys: readonly ApiKey[], version: string) {
    this.#options = options;
    this.#keys = byId(keys);
    this.#fileVersion = version;
  }

  /** Rejects with `invalid_option` if the file is missing or malformed. */
  static async open(options: KeyRingOptions): Promise<KeyRing> {
    try {
      const version = await versionOf(options.path);
      const keys = parseKeyFile(await readFile(options.path, 'utf8'), options.path);
      const ring = new KeyRing(options, keys, version);
      ring.#timer = setInterval(() => void ring.#look(), LOOK_INTERVAL_MS).unref();
      return ring;
    } catch (error) {
      if (isStoreError(error)) throw error;
      const message = `apiKeys: ${(error as Error).message}; stevedore keys add makes the file`;
      throw new StoreError('invalid_option', message, { cause: error });
    }
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

  get path(): string {
    return this.#options.path;
  }

  /** In the order of the file. */
  list(): readonly ApiKey[] {
    return [...this.#keys.values()];
  }

  /** Changes the file, and takes the change at once. Rejects with the system's error. */
  async change(change: (keys: readonly ApiKey[]) => readonly ApiKey[]): Promise<void> {
    await changeKeyFile(this.#options.path, change);
    // A look that began before may have seen the file as it was.
    await this.#looking;
    await this.#look();
  }

  #look(): Promise<void> {
    this.#looking ??= this.#readAgain().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  /** Reads the file again if it has changed. */
  async #readAgain(): Promise<void> {
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
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

/** Changes with the file, its content or its time. */
async function versionOf(path: string): Promise<string> {
  const { ino, size, mtimeNs } = await stat(path, { bigint: true });
  return `${ino}-${size}-${mtimeNs}`;
}

function byId(keys: readonly ApiKey[]): Map<string, ApiKey> {
  return new Map(keys.map((key) => [key.id, key]));
}
