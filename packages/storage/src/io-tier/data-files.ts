import { crc32 } from 'node:zlib';
import { MAX_IO_HANDLES, Status } from '@stevedore/protocol';
import { type Environment, randomName } from '../environment.js';
import { asError, StatusError } from '../errors.js';
import type { FileRecord } from '../tiers/record-row.js';
import type { Records } from '../tiers/records.js';
import { type AheadFile, AheadFiles } from './ahead-files.js';
import { allSettled, DataFile } from './data-file.js';
import type { KnownServers } from './known-servers.js';
import { encodeChecks, type Layout } from './layout.js';
import { PartRequests } from './part-requests.js';
import { StripedFile } from './striped-file.js';

/**
 * The data files of one store path on I/O servers. Its records say which there are;
 * what is being written or read is held here, so that it outlives a record that goes
 * meanwhile. What no record has any more is deleted at the servers: from a list in the
 * records, which a crash does not lose, again and again until it is done; and whatever
 * else is found under this owner's name, left by a crash or forgotten by a full list, is
 * an orphan and is deleted as well.
 */

export interface DataFilesParts {
  readonly records: Records;
  readonly servers: KnownServers;
  readonly environment: Environment;
  readonly settings: DataFileSettings;
  readonly onError: (error: Error) => void;
}

interface DataFileSettings {
  readonly stripeBytes: number;
  /** I/O servers of one data file, at most. */
  readonly stripeWidth: number;
  readonly extraRounds: { readonly create: boolean; readonly size: boolean };
  /** Between two looks for orphans at a server. */
  readonly orphanIntervalMs: number;
}

interface Held {
  readonly servers: readonly string[];
  users: number;
}

/** Between two attempts at what could not be deleted. */
const RETRY_MS = 1000;

export class DataFiles {
  readonly requests: PartRequests;
  /** Made before they are needed, for files that are about to outgrow their rows. */
  readonly ahead: AheadFiles;
  readonly #parts: DataFilesParts;
  /** Data files that are open, by handle. */
  readonly #held = new Map<string, Held>();
  /** When each server is to be looked through for orphans. */
  readonly #orphansDueMs = new Map<string, number>();
  #cleaning: Promise<void> | undefined;
  /** Somebody wants it done again, meanwhile. */
  #isAsked = false;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  #orphans = 0;

  constructor(parts: DataFilesParts) {
    this.#parts = parts;
    this.requests = new PartRequests(parts.servers, parts.records.owner);
    this.ahead = new AheadFiles({
      requests: this.requests,
      begin: () => this.#newFile(undefined),
      drop: ({ handle }) => this.#leave(handle, 'dropped'),
    });
    parts.servers.onLearn(() => this.clean());
  }

  /** Parts that no record knew, deleted since the start. */
  get orphans(): number {
    return this.#orphans;
  }

  /** A new data file; undefined if no I/O server can take it: it stays on this disk. */
  begin(about: {
    readonly bytes?: number | undefined;
    readonly mtimeSeconds: number;
    readonly verifies?: boolean;
  }): StripedFile | undefined {
    const file = this.#newFile(about.bytes);
    return file && this.#striped(file, false, about);
  }

  /**
   * A new data file that a file moves into, the one that was made ahead for it if there
   * is one; undefined if no I/O server can take it.
   */
  async beginMove(
    name: string,
    about: { readonly bytes: number; readonly mtimeSeconds: number },
  ): Promise<StripedFile | undefined> {
    const { create, size } = this.#parts.settings.extraRounds;
    const ahead = await this.ahead.take(name);
    const file = ahead ?? this.#newFile(about.bytes);
    if (!file) return undefined;
    const { handle, servers } = file;
    try {
      if (create && !ahead) {
        await allSettled(servers.map((server) => this.requests.create(server, [handle])));
      }
      if (size && (create || ahead)) {
        await allSettled(servers.map((server) => this.requests.size(server, handle)));
      }
    } catch (error) {
      this.#leave(handle, 'dropped');
      throw error;
    }
    return this.#striped(file, create || ahead !== undefined, { ...about, verifies: true });
  }

  #newFile(bytes: number | undefined): AheadFile | undefined {
    const { servers: known, settings } = this.#parts;
    const servers = known.choose(bytes, settings.stripeBytes, settings.stripeWidth);
    if (this.#isClosed || servers.length === 0) return undefined;
    return { handle: this.#newHandle(servers), servers };
  }

  #striped(
    { handle, servers }: AheadFile,
    isCreated: boolean,
    about: { readonly mtimeSeconds: number; readonly verifies?: boolean },
  ): StripedFile {
    let isNew = true;
    return new StripedFile({
      requests: this.requests,
      stripeBytes: this.#parts.settings.stripeBytes,
      servers,
      newHandle: () => {
        if (!isNew) return this.#newHandle(servers);
        isNew = false;
        return handle;
      },
      known: undefined,
      isCreated,
      verifies: about.verifies ?? false,
      mtimeSeconds: about.mtimeSeconds,
      onLeave: (left, what) => this.#leave(left, what),
    });
  }

  /** Opens a file to be changed. */
  change(record: FileRecord): StripedFile {
    const layout = soundLayout(record);
    this.#hold(layout);
    return new StripedFile({
      requests: this.requests,
      stripeBytes: layout.stripeBytes,
      servers: layout.servers,
      newHandle: () => this.#newHandle(layout.servers),
      known: { layout, size: record.size },
      isCreated: false,
      verifies: false,
      mtimeSeconds: record.mtimeSeconds,
      onLeave: (handle, what) => this.#leave(handle, what),
    });
  }

  /** Opens a file to be read, as it is now. */
  read(record: FileRecord): DataFile {
    const layout = soundLayout(record);
    this.#hold(layout);
    return new DataFile({
      requests: this.requests,
      layout,
      size: record.size,
      mtimeSeconds: record.mtimeSeconds,
      onClose: () => this.#leave(layout.handle, 'kept'),
    });
  }

  /** The record lets go of its data file, in the transaction that is open. */
  release(layout: Pick<Layout, 'handle' | 'servers'>): void {
    this.#parts.records.addDeletions(layout);
    this.clean();
  }

  /** Deletes what is to be deleted; again by itself while something is left. */
  clean(): void {
    if (this.#isClosed) return;
    this.#isAsked = this.#cleaning !== undefined;
    if (this.#cleaning) return;
    this.#cleaning = this.#clean()
      .catch((error: unknown) => this.#parts.onError(asError(error)))
      .finally(() => {
        this.#cleaning = undefined;
        if (this.#isAsked) this.clean();
        if (this.#cleaning || this.#isClosed || this.#parts.records.waitingDeletions === 0) return;
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.clean(), RETRY_MS);
        this.#timer.unref();
      });
  }

  /** Resolves when what is under way at the servers has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#cleaning;
    await this.ahead.settled();
  }

  #newHandle(servers: readonly string[]): string {
    const { environment, records } = this.#parts;
    for (;;) {
      const handle = randomName(environment);
      if (this.#held.has(handle) || records.hasHandle(handle)) continue;
      this.#held.set(handle, { servers, users: 1 });
      return handle;
    }
  }

  #hold({ handle, servers }: Layout): void {
    const held = this.#held.get(handle);
    if (held) held.users += 1;
    else this.#held.set(handle, { servers, users: 1 });
  }

  #leave(handle: string, what: 'kept' | 'dropped'): void {
    const held = this.#held.get(handle);
    if (!held) return;
    held.users -= 1;
    if (held.users > 0) return;
    this.#held.delete(handle);
    if (this.#isClosed) return;
    try {
      if (what === 'dropped') this.#parts.records.addDeletions({ handle, servers: held.servers });
    } catch (error) {
      // The records take no more until the next start, which finds an orphan.
      this.#parts.onError(asError(error));
    }
    if (this.#parts.records.waitingDeletions > 0) this.clean();
  }

  async #clean(): Promise<void> {
    const { servers } = this.#parts;
    for (const server of servers.ids) {
      if (this.#isClosed) return;
      if (!servers.isReachable(server)) continue;
      try {
        await this.#deleteAt(server);
        await this.#deleteOrphansAt(server);
      } catch (error) {
        // A server that is away is asked again when it is back.
        if (!(error instanceof StatusError) || error.status !== Status.tryAgain) throw error;
      }
    }
  }

  async #deleteAt(server: string): Promise<void> {
    const { records } = this.#parts;
    if (records.deletions(server, 1).length === 0) return;
    // Before this the record could come back, and would then have lost its bytes.
    await records.commit();
    for (;;) {
      // Those that are open stay in the list; there are fewer of them than are asked for.
      const listed = records.deletions(server, MAX_IO_HANDLES + this.#held.size);
      const handles = listed.filter((handle) => !this.#held.has(handle)).slice(0, MAX_IO_HANDLES);
      if (handles.length === 0 || this.#isClosed) return;
      await records.commit();
      await this.requests.delete(server, handles);
      records.removeDeletions(server, handles);
      await records.commit();
    }
  }

  /** Lists what a server has of this owner, now and then, and deletes what no record has. */
  async #deleteOrphansAt(server: string): Promise<void> {
    const { environment, settings, records } = this.#parts;
    const nowMs = environment.now();
    if (nowMs < (this.#orphansDueMs.get(server) ?? 0)) return;
    let after = '';
    for (;;) {
      const listed = await this.requests.list(server, after);
      if (listed.length === 0) break;
      after = listed.at(-1)!;
      const orphans = listed.filter(
        (handle) =>
          !this.#held.has(handle) &&
          !records.hasHandle(handle) &&
          !records.isToBeDeleted({ handle, server }),
      );
      if (orphans.length === 0) continue;
      // What the records do not have now they must not have after a crash either.
      await records.commit();
      if (this.#isClosed) return;
      await this.requests.delete(server, orphans);
      this.#orphans += orphans.length;
    }
    this.#orphansDueMs.set(server, nowMs + settings.orphanIntervalMs);
  }
}

/** Where the record says that the bytes are; status 5 if it is damaged. */
function soundLayout({ name, layout, crc32: sum }: FileRecord): Layout {
  if (!layout || layout.servers.length === 0 || crc32(encodeChecks(layout.checks)) !== sum) {
    throw new StatusError(Status.ioError, `the record of ${name} is damaged`);
  }
  return layout;
}

/** What a record says of a data file. */
export function dataRecord(
  name: string,
  layout: Layout,
  rest: Pick<FileRecord, 'size' | 'mtimeSeconds' | 'moves' | 'moving'>,
): Omit<FileRecord, 'place'> {
  return { name, ...rest, layout, crc32: crc32(encodeChecks(layout.checks)) };
}
