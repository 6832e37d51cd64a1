import { createHmac, timingSafeEqual } from 'node:crypto';
import { ProtocolError } from '../bytes.js';
import type { Command } from '../command.js';
import type { Codec } from '../layout.js';

/**
 * Not part of FastDFS, which has no authentication. Before anything else, both ends of a connection
 * prove with two commands that they have the same secret. The secret itself is never sent, and a
 * captured exchange is useless on another connection.
 */

export const NONCE_BYTES = 32;
const PROOF_BYTES = 32;

/** Shorter secrets could be guessed from a captured exchange. */
const MIN_SECRET_BYTES = 16;
/** One secret in use, the others for rotation. */
const MAX_SECRETS = 8;

/** 32 random bytes of the client; the reply is 32 of the server. */
export const beginAuthentication: Command<Buffer, Buffer> = {
  name: 'AUTH_BEGIN',
  code: 220,
  request: exactly(NONCE_BYTES),
  reply: exactly(NONCE_BYTES),
};

/** The client's proof; the reply is the server's. */
export const proveAuthentication: Command<Buffer, Buffer> = {
  name: 'AUTH_PROVE',
  code: 221,
  request: exactly(PROOF_BYTES),
  reply: exactly(PROOF_BYTES),
};

/** The random bytes of both ends of a connection. */
export interface Nonces {
  readonly client: Buffer;
  readonly server: Buffer;
}

export function clientProof(secret: string, nonces: Nonces): Buffer {
  return proof('stevedore client 1', secret, nonces);
}

/** Labelled differently from the client's, so that a reflected proof does not match. */
export function serverProof(secret: string, nonces: Nonces): Buffer {
  return proof('stevedore server 1', secret, nonces);
}

/** Compares in constant time. */
export function isSameProof(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

/** Parses a file of secrets: one per line, except blank lines and those that begin with #. */
export function parseSecrets(text: string): readonly string[] {
  const lines = text.split('\n').map((line) => line.trim());
  return lines.filter((line) => line !== '' && !line.startsWith('#'));
}

/** What is wrong with the secrets, as a sentence; undefined if they are valid. */
export function secretsProblem(secrets: readonly string[]): string | undefined {
  if (secrets.length === 0) return 'there is no secret';
  if (secrets.length > MAX_SECRETS) return `there are more than ${MAX_SECRETS} secrets`;
  if (secrets.some((secret) => /[\r\n]/.test(secret))) return 'a secret has a line break in it';
  const short = secrets.some((secret) => Buffer.byteLength(secret) < MIN_SECRET_BYTES);
  return short ? `a secret is shorter than ${MIN_SECRET_BYTES} bytes` : undefined;
}

function proof(label: string, secret: string, { client, server }: Nonces): Buffer {
  return createHmac('sha256', secret).update(label).update(client).update(server).digest();
}

function exactly(bytes: number): Codec<Buffer> {
  const check = (value: Buffer): Buffer => {
    if (value.length === bytes) return value;
    throw new ProtocolError(`${value.length} bytes of authentication, not ${bytes}`);
  };
  return { encode: check, decode: check };
}
