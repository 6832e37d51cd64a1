import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';

/**
 * Answers whose head is not made by Node's response but given to it as it is to be sent.
 * That is no part of Node's interface: `takesHeads` says whether this Node does it.
 */

type WithHead = ServerResponse & { _header: string | null; _headerSent: boolean };

/** Sends a head and what follows it; `head` ends with an empty line. */
export function sendWithHead(response: ServerResponse, head: string, body: Buffer): void {
  (response as WithHead)._header = head;
  response.end(body);
}

/**
 * Sends a whole answer that lies in one piece of memory. False: the system has not taken
 * all of it, and until the response is closed the memory is needed as it is.
 */
export function sendInOnePiece(response: ServerResponse, socket: Socket, whole: Buffer): boolean {
  const sent = response as WithHead;
  sent._header = SENT;
  sent._headerSent = true;
  socket.write(whole);
  const isTaken = socket.writableLength === 0;
  response.end();
  return isTaken;
}

/** Whatever is no empty string: the head is sent, and not looked at again. */
const SENT = 'HTTP/1.1 200 OK\r\n\r\n';

/** Whether both ways send what they were given, and nothing else. */
export function takesHeads(): boolean {
  const head = 'HTTP/1.1 200 OK\r\nx-one: 1\r\n\r\n';
  const apart = sentBy((response) => sendWithHead(response, head, Buffer.from('body')));
  const whole = Buffer.from(`${head}body`);
  const inOne = sentBy((response, socket) => void sendInOnePiece(response, socket, whole));
  return apart === `${head}body` && inOne === apart;
}

function sentBy(send: (response: ServerResponse, socket: Socket) => void): string {
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
  send(response, socket);
  return response.writableEnded ? sent : '';
}
