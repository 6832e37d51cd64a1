import { crc32 } from 'node:zlib';
import {
  deleteFile,
  downloadFile,
  guestStore,
  type MetadataServerRecord,
  Status,
} from '@stevedore/protocol';
import { AuthenticationError, codeOf, StatusError } from '../errors.js';
import type { PeerAccess } from '../net/frame-client.js';
import type { Endpoint } from '../options.js';
import { GuestConnections } from './connections.js';
import type { GuestPlace } from './guest-name.js';

/**
 * The other metadata servers as those who hold bytes for this one. Where they are, the
 * trackers tell with every report; a server that nobody has told of yet, or that does not
 * answer, is waited for, for a moment, and then the storage is busy: the bytes are not lost.
 */

export interface GuestHostsOptions {
  readonly timeoutMs: number;
  /** How long a server is waited for that is not there. */
  readonly awayMs: number;
  readonly access: PeerAccess;
}

export interface HomeId {
  readonly group: string;
  readonly id: string;
}

const MAX_CONNECTIONS = 8;
/** A reply must fit what a connection takes at once. */
const READ_BYTES = 512 * 1024;
const RETRY_MS = 50;

export class GuestHosts {
  readonly #options: GuestHostsOptions;
  readonly #connections: GuestConnections;
  #servers: readonly MetadataServerRecord[] = [];
  #hasLearned = false;
  #isClosed = false;

  constructor(options: GuestHostsOptions) {
    this.#options = options;
    const { timeoutMs, access } = options;
    this.#connections = new GuestConnections({ timeoutMs, access, maxPerServer: MAX_CONNECTIONS });
  }

  get servers(): readonly MetadataServerRecord[] {
    return this.#servers;
  }

  /** False until a tracker has told. */
  get hasLearned(): boolean {
    return this.#hasLearned;
  }

  learn(servers: readonly MetadataServerRecord[]): void {
    this.#hasLearned = true;
    this.#servers = servers;
  }

  /** Has the server take the bytes in; StatusError where it does not want them now. */
  async store(place: GuestPlace, home: HomeId, bytes: Buffer, loadBytes: number): Promise<void> {
    const endpoint = this.endpointOf(place);
    if (!endpoint) throw new StatusError(Status.tryAgain, `${place.id} is not known`);
    const request = {
      homeGroup: home.group,
      homeId: home.id,
      name: place.name,
      size: bytes.length,
      crc32: crc32(bytes),
      loadBytes: Math.round(loadBytes),
    };
    await this.#connections.use(endpoint, (client) =>
      client.send(guestStore, request, async (at) => bytes.subarray(at)),
    );
  }

  /** All bytes of a guest. Status 11 if its server is away; EIO if they are not those that went. */
  async read(place: GuestPlace, size: number, checksum: number): Promise<Buffer> {
    const { group, name } = place;
    const bytes = await this.#whenThere(place, (endpoint) =>
      this.#connections.use(endpoint, async (client) => {
        const parts: Buffer[] = [];
        for (let offset = 0; offset < size; offset += READ_BYTES) {
          const length = Math.min(READ_BYTES, size - offset);
          parts.push(await client.ask(downloadFile, { group, name, offset, length }));
        }
        return Buffer.concat(parts);
      }),
    );
    if (bytes.length === size && crc32(bytes) === checksum) return bytes;
    throw Object.assign(new Error(`${place.id} has other bytes of ${group}/${name}`), {
      code: 'EIO',
    });
  }

  /** Removes a guest, if it is there. */
  async remove(place: GuestPlace): Promise<void> {
    const endpoint = this.endpointOf(place);
    if (!endpoint) throw new StatusError(Status.tryAgain, `${place.id} is not known`);
    const { group, name } = place;
    try {
      await this.#connections.use(endpoint, (client) => client.ask(deleteFile, { group, name }));
    } catch (error) {
      if (!(error instanceof StatusError) || error.status !== Status.notFound) throw error;
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#connections.close();
  }

  /** Undefined for a server that no tracker has told of. */
  endpointOf({ group, id }: HomeId): Endpoint | undefined {
    const found = this.#servers.find((each) => each.group === group && each.id === id);
    return found && { host: found.host, port: found.port };
  }

  async #whenThere<Answer>(
    place: GuestPlace,
    request: (endpoint: Endpoint) => Promise<Answer>,
  ): Promise<Answer> {
    const until = performance.now() + this.#options.awayMs;
    for (;;) {
      const endpoint = this.endpointOf(place);
      try {
        if (endpoint) return await request(endpoint);
      } catch (error) {
        if (!isPassing(error)) throw error;
      }
      if (this.#isClosed || performance.now() >= until) {
        throw new StatusError(Status.tryAgain, `${place.group} ${place.id} does not answer`);
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

/** A busy server, one that restarts, a connection that broke. */
function isPassing(error: unknown): boolean {
  if (error instanceof StatusError) return error.status === Status.tryAgain;
  return codeOf(error) !== undefined && !(error instanceof AuthenticationError);
}
