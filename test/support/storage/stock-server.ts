import { createServer } from 'node:net';
import { decodeHeader, encodeHeader, REPLY_COMMAND } from '@stevedore/protocol';
import { onTestFinished } from 'vitest';

export interface Request {
  readonly code: number;
  readonly body: Buffer;
}

/** Answers as `answers` says, else with an empty body and status 0; keeps the requests. */
export async function stockServer(
  host: string,
  port: number,
  answers: ReadonlyMap<number, { status?: number; body?: Buffer }> = new Map(),
): Promise<Request[]> {
  const requests: Request[] = [];
  const server = createServer((socket) => {
    let received = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      while (received.length >= 10) {
        const { bodyBytes, command: code } = decodeHeader(received);
        if (received.length < 10 + bodyBytes) return;
        requests.push({ code, body: received.subarray(10, 10 + bodyBytes) });
        received = received.subarray(10 + bodyBytes);
        const { status = 0, body = Buffer.alloc(0) } = answers.get(code) ?? {};
        socket.write(encodeHeader({ bodyBytes: body.length, command: REPLY_COMMAND, status }));
        socket.write(body);
      }
    });
    onTestFinished(() => void socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  onTestFinished(() => void server.close());
  return requests;
}
