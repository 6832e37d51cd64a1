import { crc32 } from 'node:zlib';
import {
  ioCheck,
  ioClone,
  ioCreate,
  ioDelete,
  ioList,
  ioRead,
  ioSetSize,
  ioSize,
  ioSync,
  ioWrite,
  MAX_IO_CLONE_BYTES,
  Status,
} from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import type { KnownServers } from './known-servers.js';

/**
 * What one owner asks of I/O servers, each request to one of them. A server that cannot
 * be reached is status 11, and so is one that was started again behind unsynced bytes;
 * bytes that are damaged or missing are status 5: retrying does not bring them back.
 */

export interface PartWrite {
  readonly offset: number;
  readonly create: boolean;
  readonly sync: boolean;
  readonly verify: boolean;
  /** The run that earlier unsynced bytes of the part belong to, if there are any. */
  readonly run: string | undefined;
}

export interface StripeRead {
  readonly offset: number;
  readonly stripeBytes: number;
  readonly crc32: number;
  readonly from: number;
  readonly bytes: number;
}

export class PartRequests {
  readonly #servers: KnownServers;
  readonly #owner: string;

  constructor(servers: KnownServers, owner: string) {
    this.#servers = servers;
    this.#owner = owner;
  }

  /** Gives the run of the server that has the bytes. */
  write(server: string, handle: string, bytes: Buffer, how: PartWrite): Promise<string> {
    const { offset, create, sync, verify } = how;
    const rest = { offset, size: bytes.length, crc32: crc32(bytes), create, sync, verify };
    return this.#servers.use(server, async ({ client, run }) => {
      const request = { owner: this.#owner, handle, run: how.run ?? run, ...rest };
      await client.send(ioWrite, request, async (at) => bytes.subarray(at));
      return run;
    });
  }

  sync(server: string, handle: string, size: number, run: string): Promise<undefined> {
    return this.#servers.use(server, ({ client }) =>
      client.ask(ioSync, { owner: this.#owner, handle, run, size }),
    );
  }

  async read(server: string, handle: string, wanted: StripeRead): Promise<Buffer> {
    try {
      return await this.#servers.use(server, async ({ client }) => {
        const answer = await client.ask(ioRead, { owner: this.#owner, handle, ...wanted });
        const { bytes } = answer;
        const isWhole = wanted.from === 0 && wanted.bytes === wanted.stripeBytes;
        // A server that says so of a whole stripe is not believed, but held against the record.
        const expected = isWhole ? wanted.crc32 : answer.crc32;
        if (bytes.length !== wanted.bytes || crc32(bytes) !== expected) {
          throw new StatusError(Status.ioError, `I/O server ${server} sent other bytes`);
        }
        return bytes;
      });
    } catch (error) {
      if (!(error instanceof StatusError) || error.status !== Status.notFound) throw error;
      throw new StatusError(Status.ioError, `I/O server ${server} has lost a part of ${handle}`);
    }
  }

  setSize(server: string, handle: string, keep: number, size: number): Promise<undefined> {
    return this.#servers.use(server, ({ client }) =>
      client.ask(ioSetSize, { owner: this.#owner, handle, keep, size }),
    );
  }

  /** In steps, so that each is answered in time. */
  async clone(server: string, handle: string, to: string, size: number): Promise<void> {
    for (let offset = 0; offset < size; offset += MAX_IO_CLONE_BYTES) {
      const step = Math.min(MAX_IO_CLONE_BYTES, size - offset);
      await this.#servers.use(server, ({ client }) =>
        client.ask(ioClone, { owner: this.#owner, handle, to, offset, size: step }),
      );
    }
  }

  create(server: string, handles: readonly string[]): Promise<undefined> {
    return this.#servers.use(server, ({ client }) =>
      client.ask(ioCreate, { owner: this.#owner, handles }),
    );
  }

  delete(server: string, handles: readonly string[]): Promise<undefined> {
    return this.#servers.use(server, ({ client }) =>
      client.ask(ioDelete, { owner: this.#owner, handles }),
    );
  }

  size(server: string, handle: string): Promise<number> {
    return this.#servers.use(server, ({ client }) =>
      client.ask(ioSize, { owner: this.#owner, handle }),
    );
  }

  list(server: string, after: string): Promise<readonly string[]> {
    return this.#servers.use(server, ({ client }) =>
      client.ask(ioList, { owner: this.#owner, after }),
    );
  }

  check(server: string, handle: string, offset: number, bytes: number): Promise<number> {
    return this.#servers.use(server, ({ client }) =>
      client.ask(ioCheck, { owner: this.#owner, handle, offset, bytes }),
    );
  }
}
