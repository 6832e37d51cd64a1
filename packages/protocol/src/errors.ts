import { Status, statusText } from './constants.js';

/**
 * Bytes or values that break the FastDFS format. `status` is the errno a server
 * answers with; a client that meets one in a reply must drop the connection.
 */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
  readonly code = 'malformed_message';
  readonly status: number;

  constructor(message: string, status: number = Status.invalid) {
    super(`${message}: ${statusText(status)}`);
    this.status = status;
  }
}
