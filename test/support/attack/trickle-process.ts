import { connect } from 'node:net';

/**
 * Begins uploads, every other one of a length that is not said, sends a part of each as
 * fast as it is taken, and then waits.
 */

const [url = '', uploads = '', bytes = '', sent = ''] = process.argv.slice(2);
const { port } = new URL(url);
const chunk = Buffer.alloc(64 * 1024, 'x');

function begin(_: unknown, index: number): Promise<void> {
  const isChunked = index % 2 === 1;
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1');
    let left = Number(sent);
    socket.on('error', reject);
    socket.on('data', (text) => reject(new Error(`answered early: ${String(text)}`)));
    const more = (): void => {
      while (left > 0) {
        const piece = chunk.subarray(0, Math.min(chunk.length, left));
        left -= piece.length;
        if (isChunked) socket.write(`${piece.length.toString(16)}\r\n`);
        const isTaken = socket.write(piece);
        if (isChunked) socket.write('\r\n');
        if (!isTaken) {
          socket.once('drain', more);
          return;
        }
      }
      if (socket.writableLength === 0) resolve();
      else socket.once('drain', resolve);
    };
    const length = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${bytes}`;
    socket.write(`POST /files HTTP/1.1\r\nHost: 127.0.0.1\r\n${length}\r\n\r\n`, more);
  });
}

await Promise.all(Array.from({ length: Number(uploads) }, begin));
process.stdout.write(`in flight ${uploads}\n`);
setInterval(() => {}, 1000);
