import type { DiskSpace } from '@stevedore/disk';
import { type ConnectionCounts, type IoIdentity, Status } from '@stevedore/protocol';
import { deferred } from '../deferred.js';
import { randomName } from '../environment.js';
import { codeOf, StartError, StatusError } from '../errors.js';
import { FrameServer } from '../net/frame-server.js';
import { type Handler, handlerTable } from '../net/handler.js';
import { Announcer } from './announcer.js';
import { ioServerHandlers } from './handlers.js';
import { ownId } from './identity.js';
import { type IoServerOptions, type IoServerSettings, ioServerSettings } from './options.js';
import { PartStore } from './part-store.js';

/**
 * An I/O server: keeps the parts of data files for storages. It knows nothing of files,
 * names and metadata; a storage's records say which parts make a file.
 */
export interface IoServer extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  readonly id: string;
  /** Resolves once a tracker knows of it, so that storages hear of it. */
  joined(): Promise<void>;
  /** Open connections: now, and the most there have been at a time. */
  connections(): ConnectionCounts;
  /** Stops listening, lets requests under way finish for a moment, closes everything. */
  close(): Promise<void>;
}

const MIB = 1024 * 1024;
/** How long what the disk said about its room is believed. */
const SPACE_VALID_MS = 1000;

/** What an I/O server is without its sockets. */
interface OpenedIoServer {
  readonly identity: IoIdentity;
  readonly parts: PartStore;
  readonly handlers: ReadonlyMap<number, Handler<undefined>>;
  readonly space: () => Promise<DiskSpace>;
}

/** Rejects with StartError where the directory cannot be used. */
async function openIoServer(settings: IoServerSettings): Promise<OpenedIoServer> {
  const { disk, directory, environment, reservedSpaceMegabytes } = settings;
  const run = randomName(environment);
  const parts = new PartStore(disk, directory, run);
  let identity: IoIdentity;
  try {
    await disk.makeDirectory(directory);
    identity = { id: await ownId(disk, directory, environment), run };
    await parts.prepare();
  } catch (error) {
    if (error instanceof StartError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartError(
      codeOf(error) ?? 'ERR_IO_DIRECTORY',
      `The I/O server cannot write to the directory ${directory}: ${reason}. Choose another directory or give this user the right to write there.`,
      error,
    );
  }
  let known: { readonly value: DiskSpace; readonly atMs: number } | undefined;
  const space = async (): Promise<DiskSpace> => {
    const nowMs = environment.now();
    if (!known || Math.abs(nowMs - known.atMs) > SPACE_VALID_MS) {
      known = { value: await disk.space(directory), atMs: nowMs };
    }
    const { totalBytes, freeBytes } = known.value;
    return { totalBytes, freeBytes: Math.max(0, freeBytes - reservedSpaceMegabytes * MIB) };
  };
  const roomFor = async (bytes: number): Promise<void> => {
    const { freeBytes } = await space();
    if (bytes > freeBytes) throw new StatusError(Status.noSpace, `no room for ${bytes} bytes`);
  };
  const handlers = handlerTable(ioServerHandlers<undefined>(parts, identity, roomFor));
  return { identity, parts, handlers, space };
}

/** Starts an I/O server; resolves when it listens. Rejects with StartError or OptionError. */
export async function startIoServer(options: IoServerOptions): Promise<IoServer> {
  const settings = ioServerSettings(options);
  const { host, limits, onError } = settings;
  const { identity, handlers, space } = await openIoServer(settings);
  const server = new FrameServer<undefined>({
    role: 'I/O server',
    host,
    port: settings.port,
    limits,
    access: settings.access,
    handlers,
    closesAfterInvalid: true,
    onError,
    openSession: () => undefined,
    closeSession: () => {},
  });
  await server.listen();
  const { port } = server;
  const joined = deferred<void>();
  const announcers = settings.trackers.map(
    (tracker) =>
      new Announcer({
        tracker,
        host,
        port,
        id: identity.id,
        access: settings.access,
        timeoutMs: limits.requestTimeoutMs,
        intervalMs: settings.reportIntervalMs,
        reconnectDelayMs: settings.reconnectDelayMs,
        space,
        onJoined: joined.resolve,
        onError,
      }),
  );
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= (async () => {
      await Promise.all(announcers.map((announcer) => announcer.close()));
      await server.close();
    })();
    return closed;
  };
  return {
    host,
    port,
    id: identity.id,
    joined: () => joined.promise,
    connections: () => server.counts,
    close,
    [Symbol.asyncDispose]: close,
  };
}
