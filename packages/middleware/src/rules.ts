import { type AffinityFunction, groupOf } from '@stevedore/client';
import { checkPolicy, type UploadPolicy } from './core/upload/policy.js';

/**
 * The policies of the middleware: those of the core, where the affinity group may also
 * be a function of the request.
 */
export interface UploadRules extends Omit<UploadPolicy, 'group'> {
  /**
   * Affinity group of all files, whatever the client says; or a function of the request,
   * such as `byPage()`. Where the function gives none, the client's word counts.
   */
  readonly group?: string | AffinityFunction;
}

/** What of a request a group function is given. */
export interface GroupSource {
  readonly url?: string | undefined;
  /** The whole path where a framework has shortened `url`. */
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
