import type { PartRequests } from './part-requests.js';

/**
 * Writes to the parts of one data file at their servers. A few are on their way at a
 * time, and a failure of one is that of the whole file. A part remembers the run of its
 * server that has taken unsynced bytes: a server that was restarted since cannot vouch
 * for them, so the sync names that run.
 */
export interface PartWritesParts {
  readonly requests: PartRequests;
  readonly servers: readonly string[];
  /** Written bytes are read back at the servers before they count. */
  readonly verifies: boolean;
}

/** Whole stripes on their way to their servers. */
const MAX_IN_FLIGHT = 4;

interface Part {
  /** The run of the server that has unsynced bytes. */
  run: string | undefined;
  isCreated: boolean;
  readonly inFlight: Set<Promise<void>>;
}

export class PartWrites {
  readonly #options: PartWritesParts;
  readonly #parts: readonly Part[];
  #failure: Error | undefined;

  constructor(options: PartWritesParts, isCreated: (server: number) => boolean) {
    this.#options = options;
    this.#parts = options.servers.map((_, server) => ({
      run: undefined,
      isCreated: isCreated(server),
      inFlight: new Set(),
    }));
  }

  /** True if all parts are there, whatever they have. */
  get areCreated(): boolean {
    return this.#parts.every(({ isCreated }) => isCreated);
  }

  noteCreated(server: number): void {
    this.#parts[server]!.isCreated = true;
  }

  /** The file goes on under another handle, with nothing unsynced. */
  beginAnew(isCreated: (server: number) => boolean): void {
    for (const [server, part] of this.#parts.entries()) {
      part.run = undefined;
      part.isCreated = isCreated(server);
    }
  }

  /** Nothing is unsynced at the server, nor on its way there. */
  isSynced(server: number): boolean {
    const { run, inFlight } = this.#parts[server]!;
    return run === undefined && inFlight.size === 0;
  }

  /** Sends bytes on their way; waits only if too many are under way. */
  async write(
    server: number,
    handle: string,
    bytes: Buffer,
    how: { readonly offset: number; readonly sync: boolean },
  ): Promise<void> {
    const part = this.#parts[server]!;
    // Two requests must not both make the part, nor the first be of an unknown run.
    if (!part.isCreated || part.run === undefined) await Promise.allSettled([...part.inFlight]);
    const sending = this.#send(server, handle, bytes, how);
    part.inFlight.add(sending);
    void sending.finally(() => part.inFlight.delete(sending));
    while (this.inFlight().length >= MAX_IN_FLIGHT) await Promise.race(this.inFlight());
    this.throwIfFailed();
  }

  /** None of them ever rejects. */
  inFlight(): Promise<void>[] {
    return this.#parts.flatMap(({ inFlight }) => [...inFlight]);
  }

  /** Nothing is on its way any more. */
  async arrived(): Promise<void> {
    await Promise.all(this.inFlight());
    this.throwIfFailed();
  }

  /** Begins to sync every part that has unsynced bytes, whose length is then the one given. */
  sync(handle: string, lengthOf: (server: number) => number): Promise<void>[] {
    const { requests, servers } = this.#options;
    return this.#parts.map(async (part, server) => {
      await Promise.all([...part.inFlight]);
      this.throwIfFailed();
      const { run } = part;
      if (run === undefined) return;
      await requests.sync(servers[server]!, handle, lengthOf(server), run);
    });
  }

  throwIfFailed(): void {
    if (this.#failure) throw this.#failure;
  }

  async #send(
    server: number,
    handle: string,
    bytes: Buffer,
    { offset, sync }: { readonly offset: number; readonly sync: boolean },
  ): Promise<void> {
    const { requests, servers, verifies } = this.#options;
    const part = this.#parts[server]!;
    try {
      const how = { offset, create: !part.isCreated, sync, verify: verifies, run: part.run };
      const run = await requests.write(servers[server]!, handle, bytes, how);
      part.isCreated = true;
      part.run = sync ? undefined : (part.run ?? run);
    } catch (error) {
      this.#failure ??= error instanceof Error ? error : new Error(String(error));
    }
  }
}
