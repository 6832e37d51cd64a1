import { randomBytes } from 'node:crypto';
import {
  beginAuthentication,
  type Command,
  clientProof,
  encodeRequest,
  isSameProof,
  NONCE_BYTES,
  ProtocolError,
  proveAuthentication,
  Status,
  serverProof,
} from '@stevedore/protocol';
import type { Connection } from './connection.js';
import { type Call, ReceivedReply } from './reply.js';

/**
 * The first exchange of a connection in a cluster with a secret: each end proves that it has the
 * secret, and nothing else is sent before. Rejects with `access_denied` if the server has another
 * secret; resolves with false if it does not know the commands.
 */
export async function authenticate(
  connection: Connection,
  secret: string,
  call: Call,
  progressMs: number,
): Promise<boolean> {
  const client = randomBytes(NONCE_BYTES);
  const server = await ask(connection, beginAuthentication, client, call, progressMs);
  if (!server) return false;
  const nonces = { client, server };
  const proof = clientProof(secret, nonces);
  const shown = await ask(connection, proveAuthentication, proof, call, progressMs);
  if (!shown) return false;
  if (!isSameProof(shown, serverProof(secret, nonces))) throw refused(connection, call);
  // The next request counts as the first, on a connection known to be alive.
  connection.replies = 0;
  return true;
}

/** Undefined if the server answers with an error other than `access_denied`. */
async function ask(
  connection: Connection,
  command: Command<Buffer, Buffer>,
  request: Buffer,
  call: Call,
  progressMs: number,
): Promise<Buffer | undefined> {
  const reply = new ReceivedReply();
  await connection.exchange([encodeRequest(command, request)], reply, call, progressMs);
  if (reply.status === Status.accessDenied) throw refused(connection, call);
  if (reply.status !== Status.ok) return undefined;
  try {
    return command.reply.decode(reply.body);
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw refused(connection, call);
  }
}

function refused({ address }: Connection, call: Call): Error {
  return call.error('access_denied', 'the server has another secret', { address: address.text });
}
