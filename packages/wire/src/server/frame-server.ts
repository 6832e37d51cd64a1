import { createServer, type Server, type Socket } from 'node:net';
import type { ConnectionCounts } from '@stevedore/protocol';
import { addressText, plainAddress } from '../address.js';
import { asError, codeOf, StartError } from '../errors.js';
import { type AccessSettings, Guard } from './guard.js';
import { type ConnectionRules, ServedConnection } from './served-connection.js';

/**
 * The listening side of a daemon: accepts connections up to the limit, keeps
 * each in one place until it has ended, and closes in order. When one comes beyond the
 * limit, the one that has been without a request for longest is closed.
 */

/** Addresses of the two ends of a connection. */
export interface ConnectionEnds {
  readonly peerAddress: string;
  readonly localAddress: string;
  readonly localPort: number;
}

export interface FrameServerOptions<Session> extends Omit<ConnectionRules<Session>, 'guard'> {
  /** Who listens, for messages: `tracker` or `storage`. */
  readonly role: string;
  readonly host: string;
  readonly port: number;
  /** Who is served; without secrets, everybody. */
  readonly access?: AccessSettings;
  /** State of a new connection. */
  openSession(ends: ConnectionEnds): Session;
  closeSession(session: Session): void;
}

/** A thousand clients may knock at once. */
const BACKLOG = 2048;

export class FrameServer<Session> {
  readonly #server: Server;
  readonly #options: FrameServerOptions<Session>;
  readonly #rules: ConnectionRules<Session>;
  readonly #connections = new Map<ServedConnection<Session>, Promise<void>>();
  /** Those without a request, the longest first. */
  readonly #idle = new Set<ServedConnection<Session>>();
  #maxSeen = 0;

  constructor(options: FrameServerOptions<Session>) {
    this.#options = options;
    const { access, onError } = options;
    const guard = access?.secret === undefined ? undefined : new Guard(access, onError);
    this.#rules = { ...options, guard };
    this.#server = createServer({ allowHalfOpen: true, noDelay: true, keepAlive: true });
    this.#server.on('connection', (socket) => this.#accept(socket));
  }

  /** Connections: now, and the most there have been at a time. */
  get counts(): ConnectionCounts {
    return { allocated: this.#maxSeen, current: this.#connections.size, max: this.#maxSeen };
  }

  /** The port it listens on. */
  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new TypeError('not listening');
    return address.port;
  }

  listen(): Promise<void> {
    const { host, port, role } = this.#options;
    return new Promise((resolve, reject) => {
      const failed = (error: Error): void => reject(listenError(role, host, port, error));
      this.#server.once('error', failed);
      this.#server.listen({ host, port, backlog: BACKLOG }, () => {
        this.#server.off('error', failed);
        // From here on, a failing accept (no more descriptors) concerns one client only.
        this.#server.on('error', this.#options.onError);
        resolve();
      });
    });
  }

  /** Stops accepting, lets requests under way finish within the time, then cuts them. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const connection of this.#connections.keys()) connection.finish();
    const cut = setTimeout(() => {
      for (const connection of this.#connections.keys()) connection.cut();
    }, this.#options.limits.closeTimeoutMs);
    await Promise.all([closed, ...this.#connections.values()]);
    clearTimeout(cut);
  }

  #accept(socket: Socket): void {
    // A reset can come at any time; the byte source notices, nothing else needs to.
    socket.on('error', () => {});
    if (this.#connections.size >= this.#options.limits.maxConnections && !this.#makeRoom()) {
      socket.destroy();
      return;
    }
    const peerAddress = plainAddress(socket.remoteAddress ?? '');
    const session = this.#options.openSession({
      peerAddress,
      localAddress: plainAddress(socket.localAddress ?? ''),
      localPort: socket.localPort ?? 0,
    });
    const connection = new ServedConnection(socket, session, this.#rules, peerAddress, {
      idle: (each) => this.#idle.add(each),
      busy: (each) => this.#idle.delete(each),
    });
    const served = connection.serve().then(() => {
      this.#idle.delete(connection);
      this.#connections.delete(connection);
      this.#options.closeSession(session);
    });
    this.#connections.set(connection, served);
    this.#maxSeen = Math.max(this.#maxSeen, this.#connections.size);
  }

  #makeRoom(): boolean {
    const [idle] = this.#idle;
    if (!idle) return false;
    this.#idle.delete(idle);
    // It leaves the others once its end was noticed: for that moment there is one more.
    idle.cut();
    return true;
  }
}

function listenError(role: string, host: string, port: number, error: Error): StartError {
  const code = codeOf(error) ?? 'listen_failed';
  const where = `The ${role} cannot listen on ${addressText(host, port)}`;
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: `port ${port} is in use. Stop the program that holds it, or choose another ${role} port (0 picks a free one).`,
    EACCES: `this user may not use port ${port}. Choose a ${role} port above 1023.`,
    EADDRNOTAVAIL: `this machine has no address ${host}. Choose one of its own, or 0.0.0.0 for all.`,
  };
  return new StartError(code, `${where}: ${reasons[code] ?? asError(error).message}`, error);
}
