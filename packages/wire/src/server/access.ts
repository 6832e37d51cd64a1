import { OptionError } from '@stevedore/options';
import { secretsProblem } from '@stevedore/protocol';
import { checkInteger } from '../options.js';

/** Who may use a daemon's port: options, defaults and check. Without secrets, everybody. */

/** What those may do who do not show that they have a secret. */
export type WithoutSecret = 'nothing' | 'read' | 'all';

export interface AccessOptions {
  /**
   * Secrets that a connection must begin with, one at least 16 bytes. The first is
   * used for connections to others, all are taken. Default none: no secret is asked for, as in FastDFS.
   */
  readonly secrets?: readonly string[];
  /**
   * What is answered without a secret: `nothing`, `read` (looking up and reading files) or
   * `all` (for the time in which members are given the secret one by one). Default `nothing`.
   */
  readonly withoutSecret?: WithoutSecret;
  /** Time for a connection to show that it has a secret. Default 10,000. */
  readonly authenticationTimeoutMs?: number;
}

export interface AccessSettings {
  readonly secrets: readonly string[];
  /** The one to use for connections to others. */
  readonly secret: string | undefined;
  readonly withoutSecret: WithoutSecret;
  readonly timeoutMs: number;
}

export function accessSettings(options: AccessOptions): AccessSettings {
  const { secrets = [], withoutSecret, authenticationTimeoutMs = 10_000 } = options;
  if (secrets.length === 0 && withoutSecret !== undefined && withoutSecret !== 'all') {
    throw new OptionError('withoutSecret needs secrets');
  }
  const problem = secrets.length === 0 ? undefined : secretsProblem(secrets);
  if (problem !== undefined) throw new OptionError(`secrets: ${problem}`);
  checkInteger('authenticationTimeoutMs', authenticationTimeoutMs, 1, 3_600_000);
  return Object.freeze({
    secrets: Object.freeze([...secrets]),
    secret: secrets[0],
    withoutSecret: withoutSecret ?? 'nothing',
    timeoutMs: authenticationTimeoutMs,
  });
}
