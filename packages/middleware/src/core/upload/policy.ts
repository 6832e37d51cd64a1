import type { AffinityFunction, PutOptions } from '@stevedore/client/connect';
import { groupOf, invalidOption, parseTime } from '@stevedore/client/connect/internal';
import { essence, mediaType } from '../http/content-headers.js';
import type { TransferLimits } from '../limits.js';
import { ProblemError } from '../problems.js';

/**
 * What a route accepts and how it stores it. Every setting is optional; the defaults are the
 * server's own limits and the store's options.
 */
export interface UploadPolicy {
  /** Largest file, up to the server's own limit. */
  readonly maxFileBytes?: number;
  /** Most files in one request. */
  readonly maxFiles?: number;
  /** Largest total of one request. Default: the limit of one file. */
  readonly maxTotalBytes?: number;
  /** `image/png`, `image/*`: declared types that are accepted. Default: all. */
  readonly types?: readonly string[];
  /** Compares the first bytes of each file with its type before any is stored. Default: false. */
  readonly checkContent?: boolean;
  /** `sync`: acknowledged once on disk; `os`: once the system has it. Default: the store's. */
  readonly durability?: 'sync' | 'os';
  /** Affinity group of all files; overrides the client's. Default: the client's. */
  readonly group?: string;
  /** How long files live; a client can ask for less. Default: for ever. */
  readonly ttlMs?: number;
}

const TYPE_PATTERN = /^[a-z0-9!#$&^_.+-]+\/(?:\*|[a-z0-9!#$&^_.+-]+)$/;
const MAX_TTL_MS = 100 * 366 * 86_400_000;

/** Throws `invalid_option` for an invalid policy. */
export function checkPolicy(policy: UploadPolicy): UploadPolicy {
  const { types, durability, group, checkContent, ...numbers } = policy;
  const { maxFileBytes, maxFiles, maxTotalBytes, ttlMs, ...unknown } = numbers;
  const [name] = Object.keys(unknown);
  if (name !== undefined) throw invalidOption(`a policy has no "${name}"`);
  for (const [what, value] of Object.entries({ maxFileBytes, maxFiles, maxTotalBytes, ttlMs })) {
    if (value !== undefined && (!Number.isSafeInteger(value) || value < 1)) {
      throw invalidOption(`${what} of a policy: a whole number from 1 on is needed`);
    }
  }
  if (ttlMs !== undefined && ttlMs > MAX_TTL_MS) throw invalidOption('ttlMs: a century at most');
  for (const type of types ?? []) {
    if (TYPE_PATTERN.test(type)) continue;
    throw invalidOption(`types of a policy: "${type}" is no media type in lower case`);
  }
  if (durability !== undefined && durability !== 'sync' && durability !== 'os') {
    throw invalidOption('durability of a policy: sync or os');
  }
  if (checkContent !== undefined && typeof checkContent !== 'boolean') {
    throw invalidOption('checkContent of a policy: true or false');
  }
  if (group !== undefined && (typeof group !== 'string' || group === '')) {
    throw invalidOption('group of a policy: a name is needed');
  }
  return Object.freeze({ ...policy });
}

/** The server's limits, as far as the policy does not narrow them. */
export function limitsUnder(limits: TransferLimits, policy: UploadPolicy): TransferLimits {
  const { maxFileBytes } = policy;
  if (maxFileBytes === undefined || maxFileBytes >= limits.maxFileBytes) return limits;
  const known = narrowed.get(policy);
  if (known?.of === limits) return known.limits;
  const own = { ...limits, maxFileBytes };
  narrowed.set(policy, { of: limits, limits: own });
  return own;
}

/** The limits of routes by policy, computed once for all uploads. */
const narrowed = new WeakMap<
  UploadPolicy,
  { readonly of: TransferLimits; readonly limits: TransferLimits }
>();

/** The problem with a declared type; undefined if it is accepted. */
export function typeProblem(
  declared: string | undefined,
  { types }: UploadPolicy,
): ProblemError | undefined {
  if (!types) return undefined;
  const name = essence(mediaType(declared) ?? '');
  const family = `${name.slice(0, name.indexOf('/'))}/*`;
  if (types.includes(name) || types.includes(family)) return undefined;
  return new ProblemError('type_not_allowed', `Only ${types.join(', ')} can be uploaded here.`);
}

/**
 * `X-Expires-In`, in seconds, or `X-Expires-At`, a time of RFC 3339, and the policy together. Throws
 * `invalid_expiry`.
 */
export function expiryOf(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  { ttlMs }: UploadPolicy,
  now: number,
): Pick<PutOptions, 'expiresAt'> {
  const at = headers['x-expires-at'];
  if (at !== undefined) {
    const expiresAt = parseTime(String(at));
    const latest = now + (ttlMs ?? Number.POSITIVE_INFINITY);
    if (expiresAt && +expiresAt > now && +expiresAt <= latest) return { expiresAt };
    const message =
      'X-Expires-At is a date to come, such as 2030-01-31T12:00:00.000Z, no later than allowed.';
    throw new ProblemError('invalid_expiry', message);
  }
  const header = headers['x-expires-in'];
  if (header === undefined) return ttlMs === undefined ? {} : { expiresAt: new Date(now + ttlMs) };
  const text = String(header).trim();
  const asked = /^[1-9]\d{0,11}$/.test(text) ? Number(text) * 1000 : Number.NaN;
  const longest = ttlMs ?? MAX_TTL_MS;
  if (!(asked <= longest)) {
    const message = `X-Expires-In is a number of seconds, from 1 to ${Math.floor(longest / 1000)}.`;
    throw new ProblemError('invalid_expiry', message);
  }
  return { expiresAt: new Date(now + asked) };
}

/** The stricter of the route's own policy and that of a permission. */
export function narrowPolicy(route: UploadPolicy, permission: UploadPolicy): UploadPolicy {
  if (narrowsNothing(route, permission)) return route;
  const types = commonTypes(route.types, permission.types);
  const group = permission.group ?? route.group;
  const durability = permission.durability ?? route.durability;
  return {
    ...least('maxFileBytes', route, permission),
    ...least('maxFiles', route, permission),
    ...least('maxTotalBytes', route, permission),
    ...least('ttlMs', route, permission),
    ...(types === undefined ? {} : { types }),
    ...(route.checkContent || permission.checkContent ? { checkContent: true } : {}),
    ...(durability === undefined ? {} : { durability }),
    ...(group === undefined ? {} : { group }),
  };
}

/** True for a permission without conditions, or none stricter than the route's: most are. */
function narrowsNothing(route: UploadPolicy, permission: UploadPolicy): boolean {
  for (const name in permission) {
    if (name !== 'maxFileBytes') return false;
    const { maxFileBytes = Number.POSITIVE_INFINITY } = permission;
    if ((route.maxFileBytes ?? Number.POSITIVE_INFINITY) > maxFileBytes) return false;
  }
  return true;
}

function least(
  name: 'maxFileBytes' | 'maxFiles' | 'maxTotalBytes' | 'ttlMs',
  a: UploadPolicy,
  b: UploadPolicy,
): UploadPolicy {
  const value = Math.min(a[name] ?? Number.POSITIVE_INFINITY, b[name] ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(value) ? { [name]: value } : {};
}

function commonTypes(
  a: readonly string[] | undefined,
  b: readonly string[] | undefined,
): readonly string[] | undefined {
  if (!a || !b) return a ?? b;
  const within = (type: string, patterns: readonly string[]): boolean =>
    patterns.includes(type) || patterns.includes(`${type.slice(0, type.indexOf('/'))}/*`);
  const common = [...a.filter((type) => within(type, b)), ...b.filter((type) => within(type, a))];
  return [...new Set(common)];
}

/**
 * Policies of the middleware: as the core's, but the affinity group may also be a function of the
 * request.
 */
export interface UploadRules extends Omit<UploadPolicy, 'group'> {
  /**
   * Affinity group of all files, whatever the client says; or a function of the request, such as
   * `byPage()`. If the function returns none, the client's group counts.
   */
  readonly group?: string | AffinityFunction;
}

/** The part of a request that a group function receives. */
export interface GroupSource {
  readonly url?: string | undefined;
  /** The whole path, even if a framework has shortened `url`. */
  readonly originalUrl?: string | undefined;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export class Rules {
  readonly #policy: UploadPolicy;
  readonly #affinity: AffinityFunction | undefined;

  /** Throws `invalid_option`. */
  constructor({ group, ...policy }: UploadRules = {}) {
    this.#affinity = typeof group === 'function' ? group : undefined;
    const named = group === undefined || typeof group === 'function' ? {} : { group };
    this.#policy = checkPolicy({ ...policy, ...named });
  }

  /** The policy of one request. `form` is a text that all parts of one form share. */
  of(request: GroupSource, form: string | undefined): UploadPolicy {
    if (!this.#affinity) return this.#policy;
    const url = request.originalUrl ?? request.url ?? '/';
    const group = groupOf(this.#affinity, { url, headers: request.headers, form });
    return group === undefined ? this.#policy : { ...this.#policy, group };
  }
}
