import { randomBytes } from 'node:crypto';
import { checkInteger, OptionError } from '@stevedore/options';
import {
  beginAuthentication,
  CommandCode,
  clientProof,
  isSameProof,
  NONCE_BYTES,
  proveAuthentication,
  Status,
  secretsProblem,
  serverProof,
} from '@stevedore/protocol';
import { AuthenticationError, StatusError } from '../errors.js';

/**
 * Who may use a daemon's port; without secrets, everybody.
 *
 * Who is at the other end of an accepted connection. It is a stranger until it has
 * shown that it has a secret; a stranger gets no further than `withoutSecret` says.
 * What it sent to show it is used up with the connection.
 *
 *     stranger --> asked --> trusted            anything out of turn: refused, and closed
 */

/** What a connection without the secret may do. */
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

/** What a client asks to find and read a file, and to know whether anybody is there. */
const READING: ReadonlySet<number> = new Set([
  CommandCode.activeTest,
  CommandCode.downloadFile,
  CommandCode.getMetadata,
  CommandCode.queryFileInfo,
  CommandCode.queryFetchOne,
  CommandCode.queryFetchAll,
  CommandCode.listOneGroup,
  CommandCode.listAllGroups,
  CommandCode.listStorage,
  CommandCode.getGroupName,
  CommandCode.fetchStorageIds,
]);

/** A wrong secret in a program that connects again and again fills no log. */
const REPORT_INTERVAL_MS = 60_000;

export class Guard {
  readonly settings: AccessSettings;
  readonly #onError: (error: Error) => void;
  #refused = 0;
  #reportedAt = Number.NEGATIVE_INFINITY;

  constructor(settings: AccessSettings, onError: (error: Error) => void) {
    this.settings = settings;
    this.#onError = onError;
  }

  /** Reports refusals, once a minute at most. */
  refused(peerAddress: string, why: string): void {
    this.#refused += 1;
    const now = performance.now();
    if (now - this.#reportedAt < REPORT_INTERVAL_MS) return;
    this.#reportedAt = now;
    const all = this.#refused === 1 ? '' : ` (${this.#refused} connections refused so far)`;
    this.#onError(
      new AuthenticationError(`refused a connection from ${peerAddress}: ${why}${all}`),
    );
  }
}

export class Visitor {
  readonly #guard: Guard;
  readonly #peerAddress: string;
  readonly #cut: () => void;
  #state: 'stranger' | 'asked' | 'trusted' | 'refused' = 'stranger';
  #clientNonce: Buffer = Buffer.alloc(0);
  #serverNonce: Buffer = Buffer.alloc(0);
  #timer: NodeJS.Timeout | undefined;

  /** `cut` ends the connection of one who takes too long. */
  constructor(guard: Guard, peerAddress: string, cut: () => void) {
    this.#guard = guard;
    this.#peerAddress = peerAddress;
    this.#cut = cut;
    if (guard.settings.withoutSecret === 'nothing') this.#hurry();
  }

  /** Whether a command is one of the two that `answer` is for. */
  static isAuthentication(command: number): boolean {
    return command === CommandCode.authBegin || command === CommandCode.authProve;
  }

  /** Whether the command may be answered; if not, the connection is at its end. */
  allows(command: number): boolean {
    const { withoutSecret } = this.#guard.settings;
    if (this.#state === 'trusted') return true;
    // A connection that has begun to show a secret, or showed a wrong one, is no reader.
    if (this.#state === 'stranger') {
      if (withoutSecret === 'all') return true;
      if (withoutSecret === 'read' && READING.has(command)) return true;
    }
    this.#refuse(`command ${command} without the cluster's secret`);
    return false;
  }

  /** The answer to one of the two commands; throws StatusError or ProtocolError, and that is the end. */
  answer(command: number, body: Buffer): Buffer {
    return command === CommandCode.authBegin ? this.#begin(body) : this.#prove(body);
  }

  /** The connection has ended. */
  leave(): void {
    clearTimeout(this.#timer);
  }

  #begin(body: Buffer): Buffer {
    if (this.#state !== 'stranger') throw this.#refuse('a second beginning');
    this.#state = 'asked';
    this.#hurry();
    this.#clientNonce = beginAuthentication.request.decode(body);
    this.#serverNonce = randomBytes(NONCE_BYTES);
    return beginAuthentication.reply.encode(this.#serverNonce);
  }

  #prove(body: Buffer): Buffer {
    if (this.#state !== 'asked') throw this.#refuse('a proof that was not asked for');
    const shown = proveAuthentication.request.decode(body);
    const nonces = { client: this.#clientNonce, server: this.#serverNonce };
    // All of them are looked at, so that time does not tell which one came near.
    const [secret] = this.#guard.settings.secrets.filter((each) =>
      isSameProof(clientProof(each, nonces), shown),
    );
    if (secret === undefined) throw this.#refuse('a wrong secret');
    this.#state = 'trusted';
    clearTimeout(this.#timer);
    return proveAuthentication.reply.encode(serverProof(secret, nonces));
  }

  #refuse(why: string): StatusError {
    this.#state = 'refused';
    this.#guard.refused(this.#peerAddress, why);
    return new StatusError(Status.accessDenied, why);
  }

  #hurry(): void {
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#guard.refused(this.#peerAddress, 'no secret was shown in time');
      this.#cut();
    }, this.#guard.settings.timeoutMs);
  }
}
