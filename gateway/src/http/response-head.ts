import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';

/**
 * Answers whose head is not made by Node's response but given to it as it is to be sent.
 * That is no part of Node's interface: `takesHeads` says whether this Node does it.
 */

type WithHead = ServerResponse & { _header: string | null; _headerSent: boolean };

/**
 * Sends a whole answer; `head` ends with an empty line. False: the system has not taken all
 * of it yet.
 */
export function sendWithHead(
  response: ServerResponse,
  socket: Socket,
  head: string,
  body: Buffer,
): boolean {
  const sent = response as WithHead;
  sent._header = SENT;
  sent._headerSent = true;
  socket.cork();
  socket.write(head, 'latin1');
  socket.write(body);
  socket.uncork();
  const isTaken = socket.writableLength === 0;
  response.end();
  return isTaken;
}

/** Whatever is no empty string: the head is sent, and not looked at again. */
const SENT = 'HTTP/1.1 200 OK\r\n\r\n';

/** Whether it sends what it was given, and nothing else. */
export function takesHeads(): boolean {
  const head = 'HTTP/1.1 200 OK\r\nx-one: 1\r\n\r\n';
  let sent = '';
  const socket = new Writable({
    decodeStrings: true,
    write(bytes: Buffer, _encoding, done) {
      sent += bytes.toString('latin1');
      done();
    },
  }) as Socket;
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  response.assignSocket(socket);
  sendWithHead(response, socket, head, Buffer.from('body'));
  return response.writableEnded && sent === `${head}body`;
}
