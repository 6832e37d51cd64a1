import { connect } from 'node:net';

/**
 * Clients that ask and never read: `stalled` of them for one file each, `pipelined` for
 * many at once. Says when all have asked, then waits.
 */

const [url = '', stalled = '', pipelined = '', requests = '', ...keys] = process.argv.slice(2);
const { port } = new URL(url);
const AT_ONCE = 100;

function begin(index: number, count: number): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(Number(port), '127.0.0.1');
    socket.pause();
    // The server may end it, which is its right.
    socket.on('error', () => resolve());
    socket.on('close', () => resolve());
    const paths = Array.from({ length: count }, (_, at) => keys[(index + at) % keys.length]!);
    const heads = paths.map((key) => `GET /files/${key} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
    socket.write(heads.join(''), () => resolve());
  });
}

const counts = [
  ...Array<number>(Number(stalled)).fill(1),
  ...Array<number>(Number(pipelined)).fill(Number(requests)),
];
for (let at = 0; at < counts.length; at += AT_ONCE) {
  await Promise.all(counts.slice(at, at + AT_ONCE).map((count, index) => begin(at + index, count)));
}
process.stdout.write(`asked ${counts.length}\n`);
setInterval(() => {}, 1000);
