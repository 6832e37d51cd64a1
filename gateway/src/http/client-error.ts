import type { Socket } from 'node:net';
import {
  closeAfterReply,
  PROBLEM_TYPE,
  type ProblemCode,
  problemBody,
} from '@stevedore/middleware/core';
import type { Limits } from '../limits.js';

/**
 * What is no HTTP request is answered by hand: there is no request object for
 * it. The connection ends with the answer. Gives the answer's code; undefined where the
 * client has gone.
 */
export function answerClientError(
  error: Error & { readonly code?: string },
  socket: Socket,
  limits: Limits,
): ProblemCode | undefined {
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) {
    socket.destroy();
    return undefined;
  }
  const [code, message] = describe(error.code);
  const body = problemBody(code, message);
  const text = JSON.stringify(body);
  closeAfterReply(socket, limits);
  socket.write(
    `HTTP/1.1 ${body.status} ${body.title}\r\n` +
      `Content-Type: ${PROBLEM_TYPE}\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\n` +
      `Connection: close\r\n\r\n${text}`,
  );
  socket.destroySoon();
  return code;
}

function describe(code: string | undefined): readonly [ProblemCode, string] {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return ['headers_too_large', 'The headers of the request are too large.'];
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return ['header_timeout', 'The headers of the request took too long.'];
    default:
      return ['bad_request', 'This is not a well-formed HTTP/1.1 request.'];
  }
}
