import net from 'node:net';

/** Set-up of the tests without sockets. */

const refuse = (): never => {
  throw new Error('a test that listens or connects belongs to test/server');
};

net.Server.prototype.listen = refuse;
net.Socket.prototype.connect = refuse;
