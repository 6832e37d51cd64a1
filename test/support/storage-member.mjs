// A storage in a process of its own, to be killed: options as JSON in the first argument.
// `cut` on its input cuts it off from trackers and other members, which have addresses of its
// own network, until `join`; clients still reach it.
import net from 'node:net';
import { createInterface } from 'node:readline';
import { startStorage } from '@stevedore/node';

const options = JSON.parse(process.argv[2]);
const network = options.host.replace(/\d+$/, '');
const isOfNetwork = (address) => address?.startsWith(network) === true;
const sockets = new Set();
let isCut = false;

/** Ends what comes from the network while it is cut, or will be. */
function watch(socket) {
  sockets.add(socket);
  socket.once('close', () => sockets.delete(socket));
  if (isCut && isOfNetwork(socket.remoteAddress)) socket.destroy();
}

const { connect } = net.Socket.prototype;
net.Socket.prototype.connect = function cuttable(...args) {
  const [first] = Array.isArray(args[0]) ? args[0] : args;
  if (isCut && isOfNetwork(first?.host)) {
    process.nextTick(() => this.destroy(new Error('cut off')));
    return this;
  }
  watch(this);
  return connect.apply(this, args);
};
const { listen } = net.Server.prototype;
net.Server.prototype.listen = function watching(...args) {
  this.on('connection', watch);
  return listen.apply(this, args);
};

const storage = await startStorage({
  ...options,
  onError: (error) =>
    process.stderr.write(`${new Date().toISOString()} ${options.host}: ${error.message}\n`),
});
process.stdout.write(`ready ${storage.port}\n`);

for await (const line of createInterface({ input: process.stdin })) {
  isCut = line === 'cut';
  if (!isCut) continue;
  for (const socket of sockets) if (isOfNetwork(socket.remoteAddress)) socket.destroy();
}
