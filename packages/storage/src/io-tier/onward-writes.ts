import {
  MAX_ONWARD_STRIPES,
  type OnwardGrant,
  type OnwardServer,
  Status,
} from '@stevedore/protocol';
import { type Environment, randomName } from '../environment.js';
import { StatusError } from '../errors.js';
import type { OnwardMove } from '../tiers/onward-move.js';
import type { Tier } from '../tiers/tier.js';
import { allSettled } from './data-file.js';
import type { KnownServers } from './known-servers.js';
import { partLength, placeOf, stripeLength, stripesOf } from './layout.js';

/**
 * Passive migration: a client that has much to append to a file which it makes outgrow
 * its row is told where the file goes, and writes there by itself; the storage has
 * copied what the file had, and switches its record when the client is done. What the
 * client says it wrote is read back at the servers and synced there first. A change or
 * deletion of the file in the meantime revokes it, and so does time.
 */

export interface OnwardWritesParts {
  readonly servers: KnownServers;
  readonly environment: Environment;
  readonly maxMs: number;
  /** Eq. 14: the largest that a file which has moved so often may grow to in its row. */
  readonly fileThresholdBytes: (moves: number) => number;
}

/** At a time; further clients are told to append as ever. */
const MAX_GRANTS = 256;

/** A file by its path, and as FastDFS names it. */
export interface OnwardFile {
  readonly path: string;
  readonly name: string;
}

interface Pending {
  readonly tier: Tier;
  readonly file: OnwardFile;
  readonly move: OnwardMove;
  /** Bytes that the client may append. */
  readonly bytes: number;
  readonly timer: NodeJS.Timeout;
}

/** What has been written and looked at, to be switched to. */
export interface OnwardReady {
  readonly tier: Tier;
  readonly file: OnwardFile;
  readonly move: OnwardMove;
  readonly offset: number;
  readonly bytes: number;
  readonly checks: readonly number[];
}

export class OnwardWrites {
  readonly #parts: OnwardWritesParts;
  readonly #pending = new Map<string, Pending>();
  #isClosed = false;
  #written = 0;

  constructor(parts: OnwardWritesParts) {
    this.#parts = parts;
  }

  /** Appends that clients wrote to I/O servers by themselves. */
  get written(): number {
    return this.#written;
  }

  /** A record was switched to what a client wrote. */
  switched(): void {
    this.#written += 1;
  }

  /** Where the client is to write `bytes` bytes; undefined: it is to append them as ever. */
  async begin(tier: Tier, file: OnwardFile, bytes: number): Promise<OnwardGrant | undefined> {
    const { servers, environment, maxMs, fileThresholdBytes } = this.#parts;
    if (this.#isClosed || this.#pending.size >= MAX_GRANTS || !tier.dataFiles) return undefined;
    const name = file.path.slice(tier.data.length);
    const move = await tier.beginOnward(name, bytes, fileThresholdBytes);
    if (!move) return undefined;
    const { layout, isCreated } = move.file;
    const stripes = stripesOf(move.size + bytes, layout.stripeBytes);
    let told: OnwardServer[];
    try {
      told = await Promise.all(
        layout.servers.map(async (id) => {
          const run = await servers.use(id, async (link) => link.run);
          return { id, run, ...servers.addressOf(id)! };
        }),
      );
    } catch (error) {
      move.giveUp();
      if (error instanceof StatusError) return undefined;
      throw error;
    }
    if (stripes > MAX_ONWARD_STRIPES || this.#isClosed) {
      move.giveUp();
      return undefined;
    }
    const id = randomName(environment);
    const timer = setTimeout(() => this.#giveUp(id), maxMs);
    timer.unref();
    this.#pending.set(id, { tier, file, move, bytes, timer });
    const { handle, stripeBytes, checks } = layout;
    const rest = move.size % stripeBytes;
    return {
      id,
      owner: tier.records.owner,
      handle,
      stripeBytes,
      offset: move.size,
      crc32: rest === 0 ? 0 : checks.at(-1)!,
      isCreated,
      servers: told,
    };
  }

  /**
   * The client has written all: gives what the record is to be switched to, once that
   * is durable at the servers and is what the client says. Status 16 if nothing comes
   * of it any more.
   */
  async end(id: string, checks: readonly number[]): Promise<OnwardReady> {
    const pending = this.#pending.get(id);
    if (!pending || pending.move.isRevoked) throw revoked();
    this.#pending.delete(id);
    clearTimeout(pending.timer);
    const { tier, file, move, bytes } = pending;
    try {
      await this.#verify(pending, checks);
    } catch (error) {
      move.giveUp();
      throw error;
    }
    if (move.isRevoked) throw revoked();
    return { tier, file, move, offset: move.size, bytes, checks };
  }

  close(): void {
    this.#isClosed = true;
    for (const id of [...this.#pending.keys()]) this.#giveUp(id);
  }

  #giveUp(id: string): void {
    const pending = this.#pending.get(id);
    if (!pending) return;
    this.#pending.delete(id);
    clearTimeout(pending.timer);
    pending.move.giveUp();
  }

  /** Reads back what was written, and syncs it. */
  async #verify({ tier, move, bytes }: Pending, checks: readonly number[]): Promise<void> {
    const { handle, stripeBytes, servers } = move.file.layout;
    const striping = { stripeBytes, servers };
    const size = move.size + bytes;
    const first = Math.floor(move.size / stripeBytes);
    if (checks.length !== stripesOf(size, stripeBytes) - first) {
      throw new StatusError(Status.invalid, `${checks.length} checks`);
    }
    const { requests } = tier.dataFiles!;
    const touched = new Set(checks.map((_, index) => placeOf(first + index, striping).server));
    await allSettled(
      [...touched].map(async (server) => {
        const length = partLength(server, size, striping);
        const run = await this.#parts.servers.use(servers[server]!, async (link) => link.run);
        await requests.sync(servers[server]!, handle, length, run);
      }),
    );
    await allSettled(
      checks.map(async (check, index) => {
        const { server, offset } = placeOf(first + index, striping);
        const length = stripeLength(first + index, size, stripeBytes);
        const found = await requests.check(servers[server]!, handle, offset, length);
        if (found !== check) throw new StatusError(Status.ioError, 'other bytes than announced');
      }),
    );
  }
}

function revoked(): StatusError {
  return new StatusError(Status.busy, 'the file has changed meanwhile, or it took too long');
}
