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
import type { Deadline } from './deadline.js';
import type { FastdfsError } from './errors.js';
import { CollectedReply, MAX_SMALL_BODY_BYTES, ReplyReader } from './reply-reader.js';

/**
 * The first exchange of a connection where the cluster has a secret: each end shows
 * the other that it has it. Until then the connection carries nothing else; when it
 * fails the connection is closed.
 */
export async function authenticate(
  connection: Connection,
  secret: string,
  deadline: Deadline,
  progressMs: number,
): Promise<void> {
  const client = randomBytes(NONCE_BYTES);
  const ask = async (command: Command<Buffer, Buffer>, request: Buffer): Promise<Buffer> => {
    const reply = new CollectedReply(MAX_SMALL_BODY_BYTES);
    const frame = encodeRequest(command, request);
    await connection.exchange([frame], new ReplyReader(reply), deadline, progressMs);
    if (reply.status === Status.accessDenied) throw refused('the server has another secret');
    if (reply.status !== Status.ok) throw refused('the server has no secret');
    return decode(command, reply.body);
  };
  const refused = (message: string): FastdfsError =>
    deadline.error('access_denied', message, { address: connection.address.text });
  const decode = (command: Command<Buffer, Buffer>, body: Buffer): Buffer => {
    try {
      return command.reply.decode(body);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      throw refused('the server does not show that it has the secret');
    }
  };
  try {
    const server = await ask(beginAuthentication, client);
    const nonces = { client, server };
    const shown = await ask(proveAuthentication, clientProof(secret, nonces));
    if (!isSameProof(shown, serverProof(secret, nonces))) {
      throw refused('the server does not show that it has the secret');
    }
  } catch (error) {
    connection.destroy();
    throw error;
  }
  // What follows is the first request of a connection that is known to be alive.
  connection.replies = 0;
}
