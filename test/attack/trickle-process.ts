import { connect } from 'node:net';

/** Begins uploads, sends a part of each as fast as it is taken, and then waits. */

const [url = '', uploads = '', bytes = '', sent = ''] = process.argv.slice(2);
const { port } = new URL(url);
const chunk = Buffer.alloc(64 * 1024, 'x');

function begin(): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1');
    let left = Number(sent);
    socket.on('error', reject);
    socket.on('data', (text) => reject(new Error(`answered early: ${String(text)}`)));
    const more = (): void => {
      while (left > 0) {
        const piece = chunk.subarray(0, Math.min(chunk.length, left));
        left -= piece.length;
        if (!socket.write(piece)) {
          socket.once('drain', more);
          return;
        }
      }
      if (socket.writableLength === 0) resolve();
      else socket.once('drain', resolve);
    };
    const head = `POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: ${bytes}\r\n\r\n`;
    socket.write(head, more);
  });
}

await Promise.all(Array.from({ length: Number(uploads) }, begin));
process.stdout.write(`in flight ${uploads}\n`);
setInterval(() => {}, 1000);
