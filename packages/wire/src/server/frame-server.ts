import { createServer, type Server, type Socket } from 'node:net';
import { addressText, type ConnectionCounts } from '@stevedore/protocol';
import { plainAddress } from '../address.js';
import { asError, codeOf, StartError } from '../errors.js';
import { type AccessSettings, Guard } from './guard.js';
import { type ConnectionRules, ServedConnection } from './served-connection.js';

/**
 * The listening side of a daemon: accepts connections up to the limit, tracks each until it has
 * ended, and shuts down in order. A connection beyond the limit displaces the one that has been
 * idle longest; if none is idle, it is closed at once.
 */

/** Addresses of the two ends of a connection. */
export interface ConnectionEnds {
  readonly peerAddress: string;
  readonly localAddress: string;
  readonly localPort: number;
}

export interface FrameServerOptions<Session> extends Omit<ConnectionRules<Session>, 'guard'> {
  /** Who listens, for error messages: `tracker` or `storage`. */
  readonly role: string;
  readonly host: string;
  readonly port: number;
  /** Without secrets everybody is served. */
  readonly access?: AccessSettings;
  /** Creates the state of a new connection. */
  openSession(ends: ConnectionEnds): Session;
  closeSession(session: Session): void;
}

/** A thousand clients may connect at once. */
const BACKLOG = 2048;

export class FrameServer<Session> {
  readonly #server: Server;
  readonly #options: FrameServerOptions<Session>;
  readonly #rules: ConnectionRules<Session>;
  readonly #connections = new Map<ServedConnection<Session>, Promise<void>>();
  /** Connections between two requests, the longest idle first. */
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

  /** Current connections, and the most at a time so far. */
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
        // From here on, a failed accept (out of descriptors) affects one client only.
        this.#server.on('error', this.#options.onError);
        resolve();
      });
    });
  }

  /** Stops accepting, lets requests in flight finish within the time, then cuts them. */
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
    // A reset can come at any time; only the byte source has to notice.
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
    // It leaves `#connections` once its end is noticed; until then there is one more than the
    // limit.
    idle.cut();
    return true;
  }
}

function listenError(role: string, host: string, port: number, error: Error): StartError {
  const code = codeOf(error) ?? 'listen_failed';
  const where = `The ${role} cannot listen on ${addressText(host, port)}`;
  const named = `--${role}-port of a gateway, ${role}Port of open(), --port of stevedore ${role}`;
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: `port ${port} is in use. Stop the program that holds it, or choose another with ${named} (0 picks a free one).`,
    EACCES: `this user may not use port ${port}. Choose one above 1023 with ${named}.`,
    EADDRNOTAVAIL: `this machine has no address ${host}. Choose one of its own, or 0.0.0.0 for all.`,
  };
  return new StartError(code, `${where}: ${reasons[code] ?? asError(error).message}`, error);
}
