/**
 * A client that writes as the C client does: Nagle's algorithm is on, and a request goes
 * out in two pieces. Prints as JSON how many acknowledgements the system delayed for how
 * many requests, by a storage and by a server that does nothing against it. The count is
 * one of the whole network namespace, so this has to be alone in one. The argument is the
 * folder of the storage.
 */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { startStorage } from '@stevedore/node';
import { encodeRequest, encodeRequestHead, setMetadata, uploadFile } from '@stevedore/protocol';

const REQUESTS = 40;
const HEADER_BYTES = 10;
const HOST = '127.0.0.1';
const [, , folder] = process.argv;

const content = Buffer.alloc(20_000, 1);
const head = encodeRequestHead(uploadFile, {
  storePathIndex: 0,
  size: content.length,
  extension: 'bin',
});
const storage = await startStorage({ storePaths: [folder], host: HOST, port: 0 });
const socket = await open(storage.port);
const { group, name } = uploadFile.reply.decode(await ask(socket, head, content));
const uploads = await delayedOf(() => ask(socket, head, content));

const metadata = Buffer.alloc(500, 'x');
const change = encodeRequest(setMetadata, { group, name, mode: 'overwrite', metadata });
const cut = change.length - metadata.length;
const changes = await delayedOf(() => ask(socket, change.subarray(0, cut), metadata));
socket.destroy();
await storage.close();
console.log(JSON.stringify({ requests: REQUESTS, uploads, changes, plain: await ofPlainServer() }));

async function ofPlainServer() {
  const server = createServer({ noDelay: true }, (accepted) => {
    let bytes = 0;
    accepted.on('data', (chunk) => {
      bytes += chunk.length;
      if (bytes % (head.length + content.length) === 0) accepted.write(Buffer.alloc(HEADER_BYTES));
    });
  });
  await once(server.listen(0, HOST), 'listening');
  const plain = await open(server.address().port);
  const delayed = await delayedOf(() => ask(plain, head, content));
  plain.destroy();
  server.close();
  return delayed;
}

async function open(port) {
  const opened = connect({ host: HOST, port, noDelay: false });
  await once(opened, 'connect');
  return opened;
}

/** The body of the answer. */
async function ask(to, ...pieces) {
  for (const piece of pieces) to.write(piece);
  let reply = Buffer.alloc(0);
  do {
    const [chunk] = await once(to, 'data');
    reply = Buffer.concat([reply, chunk]);
  } while (
    reply.length < HEADER_BYTES ||
    reply.length < HEADER_BYTES + Number(reply.readBigUInt64BE(0))
  );
  if (reply[9] !== 0) throw new Error(`status ${reply[9]}`);
  return reply.subarray(HEADER_BYTES);
}

async function delayedOf(request) {
  const before = await delayedAcks();
  for (let count = 0; count < REQUESTS; count += 1) await request();
  return (await delayedAcks()) - before;
}

async function delayedAcks() {
  const text = await readFile('/proc/self/net/netstat', 'utf8');
  const lines = text.split('\n').filter((line) => line.startsWith('TcpExt:'));
  const [names, values] = lines.map((line) => line.split(' '));
  return Number(values[names.indexOf('DelayedACKs')]);
}
