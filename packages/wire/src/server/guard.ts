import { randomBytes } from 'node:crypto';
import { OptionError } from '@stevedore/options';
import {
  activeTest,
  beginAuthentication,
  clientProof,
  downloadFile,
  fetchStorageIds,
  getGroupName,
  getMetadata,
  isSameProof,
  listAllGroups,
  listOneGroup,
  listStorage,
  NONCE_BYTES,
  proveAuthentication,
  queryFetch,
  queryFetchAll,
  queryFileInfo,
  Status,
  secretsProblem,
  serverProof,
} from '@stevedore/protocol';
import { AuthenticationError, StatusError } from '../errors.js';

/**
 * Authenticates accepted connections; without secrets everybody is served. A connection is a
 * stranger until it has proved that it has a secret. A stranger may do no more than `withoutSecret`
 * allows. A proof is valid for its connection only.
 *
 *      stranger --> asked --> trusted            anything out of turn: refused and closed
 */

/** What a connection without the secret may do. */
export type WithoutSecret = 'nothing' | 'read' | 'all';

export interface AccessOptions {
  /**
   * Accepted secrets, each at least 16 bytes. Connections to others use the first. Default none: no
   * secret is required, as in FastDFS.
   */
  readonly secrets?: readonly string[];
  /**
   * What is allowed without a secret: `nothing`, `read` (looking up and reading files) or `all`
   * (while members are given the secret one by one). Default `nothing`.
   */
  readonly withoutSecret?: WithoutSecret;
  /** Time for a connection to prove that it has a secret. Default 10,000. */
  readonly authenticationTimeoutMs?: number;
}

export interface AccessSettings {
  readonly secrets: readonly string[];
  /** The secret for connections to others. */
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
  return Object.freeze({
    secrets: Object.freeze([...secrets]),
    secret: secrets[0],
    withoutSecret: withoutSecret ?? 'nothing',
    timeoutMs: authenticationTimeoutMs,
  });
}

/** Commands to find and read a file, and to test whether the server is alive. */
const READING: ReadonlySet<number> = new Set(
  [
    activeTest,
    downloadFile,
    getMetadata,
    queryFileInfo,
    queryFetch,
    queryFetchAll,
    listOneGroup,
    listAllGroups,
    listStorage,
    getGroupName,
    fetchStorageIds,
  ].map(({ code }) => code),
);

/** Keeps a program that retries with a wrong secret from filling the log. */
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

  /** Counts a refusal; reports at most once a minute. */
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

  /** `cut` ends the connection if the proof takes too long. */
  constructor(guard: Guard, peerAddress: string, cut: () => void) {
    this.#guard = guard;
    this.#peerAddress = peerAddress;
    this.#cut = cut;
    if (guard.settings.withoutSecret === 'nothing') this.#hurry();
  }

  /** True for the two commands that `answer` handles. */
  static isAuthentication(command: number): boolean {
    return command === beginAuthentication.code || command === proveAuthentication.code;
  }

  /** True if the command may be answered; otherwise close the connection. */
  allows(command: number): boolean {
    const { withoutSecret } = this.#guard.settings;
    if (this.#state === 'trusted') return true;
    // A connection that has begun to authenticate, or failed to, may not read as a stranger.
    if (this.#state === 'stranger') {
      if (withoutSecret === 'all') return true;
      if (withoutSecret === 'read' && READING.has(command)) return true;
    }
    this.#refuse(`command ${command} without the cluster's secret`);
    return false;
  }

  /**
   * Answers an authentication command. If it throws StatusError or ProtocolError, close the
   * connection.
   */
  answer(command: number, body: Buffer): Buffer {
    return command === beginAuthentication.code ? this.#begin(body) : this.#prove(body);
  }

  /** Call it when the connection has ended. */
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
    // Compares with all secrets, so that timing does not reveal which one came close.
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
