import type { IncomingHttpHeaders } from 'node:http';
import {
  ProblemError,
  type Query,
  type QueryValues,
  type UploadPolicy,
  uploadMark,
  type Verified,
  verifyQuery,
} from '@stevedore/middleware/core';
import { checkToken } from '@stevedore/protocol';
import { type ApiKey, isTextOf, type KeyRing, type Scope } from './api-keys.js';
import { type Ledger, LocalLedger, UploadAccount } from './ledger.js';
import { CrossSite } from './origins.js';

/**
 * Decides who may do what. With API keys, writes and deletions need one. With a URL secret, reads
 * need a signed URL or a key, and a presigned URL can replace the key of one upload. With neither,
 * the gateway is open and warns about it at start. Without API keys, anyone may delete a file whose
 * key they know; listings, and FastDFS ids without their token, need the gateway's own key.
 */

export interface AccessOptions {
  readonly keys?: KeyRing | undefined;
  /** The gateway's own key, where there are no others. */
  readonly localKey?: ApiKey | undefined;
  /** The first one signs, all verify; none: reads are open. */
  readonly urlSecrets?: readonly string[];
  readonly antiLeech?: AntiLeech | undefined;
  /** Origins whose pages may write if there are no keys. */
  readonly corsOrigins?: readonly string[];
  /** Default: counted in this process alone. */
  readonly ledger?: Ledger | undefined;
  readonly now?: () => number;
}

export interface AskedBy {
  readonly headers: IncomingHttpHeaders;
  readonly query: Query;
}

export interface ReadGrant {
  /** True if only the requesting client may cache the answer. */
  readonly private: boolean;
  /** How long the answer may be cached. */
  readonly freshSeconds?: number;
  /** Expiry in Unix milliseconds. Accepted for one more minute, as clocks may differ. */
  readonly freshUntil?: number;
  /** The URL is signed, with all of its parameters. */
  readonly isSigned?: boolean;
}

export interface UploadGrant {
  /** Conditions of the permission itself, in addition to the route's policy. */
  readonly policy: UploadPolicy;
  /** Separates one client's idempotency keys from another's. */
  readonly scope: string;
  /** Claim of a URL that is good for one file. */
  readonly mark?: Buffer | undefined;
  /** For a key with a quota. */
  readonly account?: UploadAccount | undefined;
}

/** A request of a resumable upload that was begun before. */
export interface ResumeGrant extends Pick<UploadGrant, 'account'> {
  /** The only scope whose uploads exist for this client; undefined: all. */
  readonly visibleScope?: string;
}

/** Keys as they may be shown: the hash of the secret is left out. */
export interface ShownKey extends Omit<ApiKey, 'hash'> {
  /** Bytes uploaded today (UTC), for a key with a `bytesPerDay`. */
  readonly bytesToday?: number;
}

export interface Permissions {
  /** Path of the file that has the keys. */
  readonly file: string;
  readonly keys: readonly ShownKey[];
  /** Number of keys that are left out of the list. */
  readonly hidden: number;
}

const MAX_KEYS_SHOWN = 500;

type Awaitable<Value> = Value | Promise<Value>;

const OPEN: ReadGrant = { private: false };
/** Prefix of the scope of uploads by a presigned URL; an API key's id contains no blank. */
const PRESIGNED = 'presigned ';
const LOCAL_KEY_NEEDED =
  "This needs the gateway's own key, from the file local-key in its directory. Commands of its user on its machine send it, and the console that is opened at the address printed at the start.";
const NO_POLICY: UploadPolicy = Object.freeze({});

export class Access {
  readonly #keys: KeyRing | undefined;
  readonly #localKey: ApiKey | undefined;
  readonly #urlSecrets: readonly string[];
  readonly #antiLeech: AntiLeech | undefined;
  readonly #crossSite: CrossSite;
  readonly #now: () => number;
  readonly ledger: Ledger;
  #seenKeys = 0;

  constructor(options: AccessOptions = {}) {
    const { keys, urlSecrets = [], antiLeech, corsOrigins = [], now = Date.now } = options;
    this.#keys = keys;
    this.#localKey = options.localKey;
    this.#crossSite = new CrossSite(corsOrigins);
    this.#urlSecrets = urlSecrets;
    this.#antiLeech = antiLeech;
    this.#now = now;
    this.ledger = options.ledger ?? new LocalLedger(now);
  }

  /** True if no key is needed. */
  get isOpen(): boolean {
    return this.#keys === undefined;
  }

  /** A file by its key. Throws `unauthorized`, `forbidden` or the problem of the signature. */
  read(asked: AskedBy, key: string): Awaitable<ReadGrant> {
    if (this.#urlSecrets.length === 0) return OPEN;
    return this.#signedRead(asked, key) ?? this.#privateRead(asked);
  }

  /** A file by its FastDFS id. A key takes the place of a token. */
  readId(asked: AskedBy, id: string, name: string): Awaitable<ReadGrant> {
    if (!this.#antiLeech) return this.read(asked, id);
    if (asked.query.token === undefined && presentedKey(asked.headers) !== undefined) {
      return this.#privateRead(asked);
    }
    demandToken(name, asked.query, this.#antiLeech, this.#now());
    return { private: true, freshSeconds: Math.floor(this.#antiLeech.ttlMs / 1000) };
  }

  /**
   * Facts of the file `id`. A signed URL does not allow them: it is for the bytes. An id seen in a
   * URL with a token must not reveal the key, which never expires.
   */
  async info(asked: AskedBy, id: string): Promise<void> {
    if (this.#keys || this.#urlSecrets.length > 0) await this.#demand(asked, 'read');
    else if (this.#isGuarded(id)) await this.#demandLocal(asked, 'read');
  }

  /** Metrics of the gateway. They concern no file, but are not public. */
  async watch(asked: AskedBy): Promise<void> {
    if (this.#keys) await this.#demand(asked, 'read');
  }

  /** The keys, for one that may change them, and that key. */
  async administer(asked: AskedBy): Promise<{ readonly keys: KeyRing; readonly by: ApiKey }> {
    if (!this.#keys) {
      throw new ProblemError('route_not_found', 'This gateway has no API keys.');
    }
    return { keys: this.#keys, by: await this.#demand(asked, 'admin') };
  }

  /** The API keys, without their secrets, and what was uploaded with them today. */
  async permissions(asked: AskedBy): Promise<Permissions> {
    const ring = (await this.administer(asked)).keys;
    const all = ring.list();
    const today = new Map((await this.ledger.today()).map(({ id, bytes }) => [id, bytes]));
    const keys = all.slice(0, MAX_KEYS_SHOWN).map(({ hash: _, ...key }) => ({
      ...key,
      // Only these are counted.
      ...(key.bytesPerDay === undefined ? {} : { bytesToday: today.get(key.id) ?? 0 }),
    }));
    return { file: ring.file.path, keys, hidden: all.length - keys.length };
  }

  /**
   * Deletion of the file `id`. With API keys, needs the scope `delete`; without, anyone but pages of
   * other origins. Knowing an id from a URL with a token is not enough.
   */
  async remove(asked: AskedBy, id: string): Promise<void> {
    if (this.#keys) await this.#demand(asked, 'delete');
    else this.#crossSite.demandOwn(asked.headers);
    if (!this.#keys && this.#isGuarded(id)) await this.#demandLocal(asked, 'delete');
  }

  /** Work of the gateway that costs something, on request. */
  async manage(asked: AskedBy): Promise<void> {
    if (this.#keys) await this.#demand(asked, 'admin');
    else await this.#demandLocal(asked, 'admin');
  }

  /** A listing shows keys, and anyone who has a key may read the file, so it always needs one. */
  async list(asked: AskedBy): Promise<void> {
    if (this.#keys) await this.#demand(asked, 'list');
    else await this.#demandLocal(asked, 'list');
  }

  /** A FastDFS id that needs a token. */
  #isGuarded(id: string): boolean {
    return this.#antiLeech !== undefined && id.includes('/');
  }

  /** `path` is the subject of a presigned URL. */
  async upload(asked: AskedBy, path: string): Promise<UploadGrant> {
    const signed = this.#verified(asked, 'POST', path);
    if (signed) return presigned(signed);
    if (!this.#keys) {
      this.#crossSite.demandOwn(asked.headers);
      return { policy: NO_POLICY, scope: '' };
    }
    const key = await this.#demand(asked, 'write');
    return { policy: NO_POLICY, scope: key.id, ...this.#accountOf(key) };
  }

  /**
   * A request of a resumable upload. `scope` is that of its first request, undefined if it has
   * ended. An upload begun by a presigned URL needs no key: its own URL is enough.
   */
  async resume(asked: AskedBy, scope: string | undefined): Promise<ResumeGrant> {
    if (!this.#keys) this.#crossSite.demandOwn(asked.headers);
    if (!this.#keys || scope?.startsWith(PRESIGNED)) return {};
    const key = await this.#demand(asked, 'write');
    return { visibleScope: key.id, ...this.#accountOf(key) };
  }

  #accountOf(key: ApiKey): Pick<UploadGrant, 'account'> {
    const isLimited = key.bytesPerDay !== undefined;
    return { account: isLimited ? new UploadAccount(this.ledger, key) : undefined };
  }

  async close(): Promise<void> {
    this.#keys?.file.close();
    await this.ledger.close?.();
  }

  #signedRead(asked: AskedBy, subject: string): ReadGrant | undefined {
    const signed = this.#verified(asked, 'GET', subject);
    if (!signed) return undefined;
    const freshUntil = signed.expiresAt.getTime();
    const left = Math.floor((freshUntil - this.#now()) / 1000);
    return { private: true, freshSeconds: Math.max(0, left), freshUntil, isSigned: true };
  }

  async #privateRead(asked: AskedBy): Promise<ReadGrant> {
    await this.#demand(asked, 'read');
    return { private: true };
  }

  #verified(asked: AskedBy, method: 'GET' | 'POST', subject: string): Verified | undefined {
    if (this.#urlSecrets.length === 0) return undefined;
    return verifyQuery(this.#urlSecrets, method, subject, asked.query, this.#now());
  }

  async #demand({ headers }: AskedBy, scope: Scope): Promise<ApiKey> {
    const text = presentedKey(headers);
    const key = text === undefined ? undefined : this.#find(text);
    if (!key) {
      throw unauthorized(
        text === undefined
          ? 'This needs an API key or a signed URL.'
          : 'The API key is unknown or expired.',
      );
    }
    this.#prune();
    await this.ledger.request(key);
    if (key.scopes.includes(scope)) return key;
    throw new ProblemError('forbidden', `This key has no scope "${scope}".`);
  }

  async #demandLocal(asked: AskedBy, scope: Scope): Promise<void> {
    if (presentedKey(asked.headers) === undefined) throw unauthorized(LOCAL_KEY_NEEDED);
    await this.#demand(asked, scope);
  }

  #find(text: string): ApiKey | undefined {
    if (this.#keys) return this.#keys.find(text);
    return this.#localKey && isTextOf(this.#localKey, text) ? this.#localKey : undefined;
  }

  /** Drops the usage of revoked keys when the key file has changed. */
  #prune(): void {
    const ring = this.#keys;
    if (!ring || ring.file.version === this.#seenKeys) return;
    this.#seenKeys = ring.file.version;
    this.ledger.prune((id) => ring.has(id));
  }
}

/** `Authorization: Bearer KEY` or `X-Api-Key: KEY`. */
function presentedKey(headers: IncomingHttpHeaders): string | undefined {
  const { authorization } = headers;
  const bearer = authorization && /^Bearer[ ]+([\x21-\x7e]+)$/i.exec(authorization);
  if (bearer) return bearer[1];
  const own = headers['x-api-key'];
  return own === undefined ? undefined : String(own);
}

function unauthorized(message: string): ProblemError {
  const headers = { 'www-authenticate': 'Bearer realm="stevedore"' };
  return new ProblemError('unauthorized', message, undefined, headers);
}

function presigned({ parameters, identity }: Verified): UploadGrant {
  const { nonce } = parameters;
  return {
    policy: policyOf(parameters),
    // The holder of one URL learns nothing about uploads by another.
    scope: `${PRESIGNED}${identity}`,
    mark: nonce === undefined ? undefined : uploadMark('presigned', nonce),
  };
}

/** The conditions of a presigned upload. */
function policyOf(parameters: QueryValues): UploadPolicy {
  const { type, group } = parameters;
  const maxFileBytes = wholeNumber(parameters['max-bytes']);
  const ttlSeconds = wholeNumber(parameters.ttl);
  return {
    ...(maxFileBytes === undefined ? {} : { maxFileBytes }),
    ...(type === undefined ? {} : { types: [type.toLowerCase()] }),
    ...(group === undefined ? {} : { group }),
    ...(ttlSeconds === undefined ? {} : { ttlMs: ttlSeconds * 1000 }),
    ...(parameters.nonce === undefined ? {} : { maxFiles: 1 }),
  };
}

function wholeNumber(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
  throw new ProblemError('signature_invalid', 'A condition of the URL is not a number.');
}

/**
 * The anti-leech token of FastDFS URLs, checked as the FastDFS nginx module does: a URL without a
 * token is refused like one with a wrong token (400 for both), and a `ts` of 0 never expires. It
 * prevents links from other sites, and is weaker than a signed URL.
 */
export interface AntiLeech {
  readonly secret: string;
  readonly ttlMs: number;
}

/** Throws `token_required`, `token_invalid`. `name` is the id without its group. */
function demandToken(name: string, query: Query, { secret, ttlMs }: AntiLeech, now: number): void {
  const { token, ts } = query;
  if (typeof token !== 'string' || typeof ts !== 'string') {
    throw new ProblemError('token_required', 'This path needs the parameters token and ts.');
  }
  const result = /^\d{1,10}$/.test(ts)
    ? checkToken({
        name,
        secret,
        token,
        timestampSeconds: Number(ts),
        nowSeconds: Math.floor(now / 1000),
        lifetimeSeconds: Math.floor(ttlMs / 1000),
      })
    : 'wrong';
  if (result === 'ok') return;
  const message = result === 'expired' ? 'This token has expired.' : 'The token is wrong.';
  throw new ProblemError('token_invalid', message);
}
