import { crc32 } from 'node:zlib';
import type { DiskFile, FileStat } from '@stevedore/disk';
import { bytesOf, GrowingBytes } from '../tiers/growing-bytes.js';
import { allSettled, readStripes } from './data-file.js';
import { type Layout, partLength, piecesOf, placeOf, stripeLength, stripesOf } from './layout.js';
import type { PartRequests } from './part-requests.js';

/**
 * A data file that is being written. Nobody sees what is written until a record says
 * where it is: a new file has a handle that no record knows, bytes behind the end of a
 * file are in no record either, and whoever changes what a record does know gets a clone
 * under a new handle first. So there is nothing to be made good after a crash.
 *
 * Bytes are gathered in one stripe in memory, which goes to its server once it is whole;
 * a few are on their way at a time. `sync` resolves when all that was written before is
 * durable at the servers; then `layout` and `size` may go into a record.
 */

export interface StripedFileParts {
  readonly requests: PartRequests;
  readonly stripeBytes: number;
  readonly servers: readonly string[];
  /** A handle that nobody has. */
  readonly newHandle: () => string;
  /** What a record knows already; else a new file. */
  readonly known: { readonly layout: Layout; readonly size: number } | undefined;
  /** The parts are there already, empty. */
  readonly isCreated: boolean;
  /** Written bytes are read back at the servers before they count. */
  readonly verifies: boolean;
  readonly mtimeSeconds: number;
  /** Nothing uses the handle any more: it was closed, or another one took its place. */
  readonly onLeave: (handle: string, what: 'kept' | 'dropped') => void;
}

/** Whole stripes on their way to their servers. */
const MAX_IN_FLIGHT = 4;

interface Part {
  /** The run of the server that has unsynced bytes. */
  run: string | undefined;
  isCreated: boolean;
  readonly inFlight: Set<Promise<void>>;
}

/** Bytes of a stripe that are not at its server yet, from `from` on. */
interface Gathered {
  readonly stripe: number;
  readonly from: number;
  readonly bytes: GrowingBytes;
}

export class StripedFile implements DiskFile {
  readonly #parts: StripedFileParts;
  readonly #servers: readonly Part[];
  #handle: string;
  #checks: number[];
  #size: number;
  /** A record knows the handle: what it knows must not be changed. */
  #isKnown: boolean;
  #hasChanged = false;
  #mtimeSeconds: number;
  #gathered: Gathered | undefined;
  #failure: Error | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #isOpen = true;

  constructor(parts: StripedFileParts) {
    const { known } = parts;
    this.#parts = parts;
    this.#isKnown = known !== undefined;
    this.#handle = known?.layout.handle ?? parts.newHandle();
    this.#checks = [...(known?.layout.checks ?? [])];
    this.#size = known?.size ?? 0;
    this.#mtimeSeconds = parts.mtimeSeconds;
    this.#servers = parts.servers.map((_, server) => ({
      run: undefined,
      isCreated: parts.isCreated || partLength(server, this.#size, parts) > 0,
      inFlight: new Set(),
    }));
  }

  get size(): number {
    return this.#size;
  }

  get mtimeSeconds(): number {
    return this.#mtimeSeconds;
  }

  /** True if content or time are others than those that the record has. */
  get hasChanged(): boolean {
    return this.#hasChanged;
  }

  get handle(): string {
    return this.#handle;
  }

  /** As of the last `sync`. */
  get layout(): Layout {
    const { stripeBytes, servers } = this.#parts;
    return { handle: this.#handle, stripeBytes, servers, checks: [...this.#checks] };
  }

  async stat(): Promise<FileStat> {
    return { size: this.#size, mtimeSeconds: this.#mtimeSeconds, isFile: true };
  }

  readAt(target: Buffer, position: number): Promise<number> {
    return this.#inTurn(async () => {
      await this.#flushed();
      const bytes = Math.max(0, Math.min(target.length, this.#size - position));
      await this.#read(target.subarray(0, bytes), position);
      return bytes;
    });
  }

  writeAt(chunks: readonly Uint8Array[], position: number): Promise<void> {
    return this.#inTurn(async () => {
      if (bytesOf(chunks) === 0) return;
      if (position > this.#size) await this.#grow(position);
      if (position < this.#size) await this.#fork();
      this.#hasChanged = true;
      let at = position;
      for (const chunk of chunks) {
        await this.#write(chunk, at);
        at += chunk.length;
      }
    });
  }

  truncate(size: number): Promise<void> {
    return this.#inTurn(async () => {
      if (size === this.#size) return;
      this.#hasChanged = true;
      if (size > this.#size) await this.#grow(size);
      else await this.#cut(size);
    });
  }

  async setModified(seconds: number): Promise<void> {
    if (this.#mtimeSeconds !== seconds) this.#hasChanged = true;
    this.#mtimeSeconds = seconds;
  }

  /** All that was written before is durable at its servers; what is written meanwhile goes on. */
  async sync(): Promise<void> {
    const syncs = await this.#inTurn(async () => this.#beginSync());
    await allSettled(syncs);
    this.#throwIfFailed();
  }

  /** True if all parts are there, whatever they have. */
  get isCreated(): boolean {
    return this.#servers.every(({ isCreated }) => isCreated);
  }

  /** Somebody else has written behind the end, durably: the checks of the stripes from there on. */
  extended(size: number, checks: readonly number[], mtimeSeconds: number): void {
    const first = Math.floor(this.#size / this.#parts.stripeBytes);
    this.#checks.splice(first, this.#checks.length - first, ...checks);
    this.#size = size;
    this.#mtimeSeconds = mtimeSeconds;
  }

  /** A record has been told of the file as it is; it may be changed further. */
  recorded(): void {
    this.#isKnown = true;
    this.#hasChanged = false;
  }

  /** Gives up what no record knows. */
  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#turn.catch(() => {});
    await Promise.allSettled(this.#inFlight());
    this.#parts.onLeave(this.#handle, this.#isKnown ? 'kept' : 'dropped');
  }

  /** One operation at a time, in the order of the calls. */
  #inTurn<Result>(operation: () => Promise<Result>): Promise<Result> {
    const result = this.#turn.then(() => {
      this.#throwIfFailed();
      return operation();
    });
    this.#turn = result.catch(() => {});
    return result;
  }

  #throwIfFailed(): void {
    if (this.#failure) throw this.#failure;
  }

  async #write(chunk: Uint8Array, position: number): Promise<void> {
    const { stripeBytes } = this.#parts;
    for (const { stripe, from, at, bytes } of piecesOf(position, chunk.length, stripeBytes)) {
      if (this.#gathered?.stripe !== stripe) await this.#flush();
      const gathered = await this.#gather(stripe, from, bytes);
      gathered.bytes.writeAt([chunk.subarray(at, at + bytes)], from - gathered.from);
      this.#size = Math.max(this.#size, position + at + bytes);
      if (gathered.from + gathered.bytes.size === stripeBytes) await this.#flush();
    }
  }

  /** The stripe in memory, so that bytes can be written at `from` of it. */
  async #gather(stripe: number, from: number, bytes: number): Promise<Gathered> {
    const before = this.#gathered;
    if (before && from >= before.from) return before;
    const length = before
      ? before.from + before.bytes.size
      : stripeLength(stripe, this.#size, this.#parts.stripeBytes);
    let gathered: Gathered;
    if (from === length) {
      gathered = { stripe, from, bytes: new GrowingBytes() };
    } else if (from === 0 && bytes >= length) {
      gathered = { stripe, from: 0, bytes: new GrowingBytes() };
    } else {
      // What lies before the gathered bytes is at the server; it is all that it has then.
      const stored = before ? before.from : length;
      await this.#arrived();
      const old = Buffer.allocUnsafe(stored);
      await this.#readStripe(stripe, stored, old);
      gathered = { stripe, from: 0, bytes: new GrowingBytes(old) };
      if (before) gathered.bytes.writeAt([before.bytes.bytes], before.from);
    }
    this.#gathered = gathered;
    return gathered;
  }

  /** Sends the gathered bytes on their way; waits only if too many are under way. */
  async #flush(sync = false): Promise<void> {
    const gathered = this.#gathered;
    if (!gathered) return;
    this.#gathered = undefined;
    const { stripe, from } = gathered;
    const bytes = gathered.bytes.bytes;
    this.#checks[stripe] = crc32(bytes, from === 0 ? 0 : this.#checks[stripe]);
    const place = placeOf(stripe, this.#parts);
    const part = this.#servers[place.server]!;
    // Two requests must not both make the part, nor the first be of an unknown run.
    if (!part.isCreated || part.run === undefined) await Promise.allSettled([...part.inFlight]);
    const sending = this.#send(place.server, bytes, place.offset + from, sync);
    part.inFlight.add(sending);
    void sending.finally(() => part.inFlight.delete(sending));
    while (this.#inFlight().length >= MAX_IN_FLIGHT) await Promise.race(this.#inFlight());
    this.#throwIfFailed();
  }

  /** Never rejects: a failure is that of the whole file. */
  async #send(server: number, bytes: Buffer, offset: number, sync: boolean): Promise<void> {
    const { requests, servers, verifies } = this.#parts;
    const part = this.#servers[server]!;
    try {
      const how = { offset, create: !part.isCreated, sync, verify: verifies, run: part.run };
      const run = await requests.write(servers[server]!, this.#handle, bytes, how);
      part.isCreated = true;
      part.run = sync ? undefined : (part.run ?? run);
    } catch (error) {
      this.#failure ??= error instanceof Error ? error : new Error(String(error));
    }
  }

  #inFlight(): Promise<void>[] {
    return this.#servers.flatMap(({ inFlight }) => [...inFlight]);
  }

  /** Nothing is on its way any more. */
  async #arrived(): Promise<void> {
    await Promise.all(this.#inFlight());
    this.#throwIfFailed();
  }

  /** All bytes are at their servers, synced or not. */
  async #flushed(): Promise<void> {
    await this.#flush();
    await this.#arrived();
  }

  /** Begins to sync every part; a part that gets its only bytes now is synced with them. */
  async #beginSync(): Promise<Promise<unknown>[]> {
    const last = this.#gathered && placeOf(this.#gathered.stripe, this.#parts).server;
    const isOnlyWrite =
      last !== undefined &&
      this.#servers[last]!.run === undefined &&
      this.#servers[last]!.inFlight.size === 0;
    await this.#flush(isOnlyWrite);
    const { requests, servers } = this.#parts;
    const handle = this.#handle;
    const size = this.#size;
    return this.#servers.map(async (part, server) => {
      await Promise.all([...part.inFlight]);
      this.#throwIfFailed();
      const { run } = part;
      if (run === undefined) return;
      await requests.sync(servers[server]!, handle, partLength(server, size, this.#parts), run);
    });
  }

  /** What is changed is a clone from here on, if a record knows the file. */
  async #fork(): Promise<void> {
    if (!this.#isKnown) return;
    await this.#flushed();
    await this.#forkAs(this.#size);
  }

  /** Goes on with the first bytes of the file, under a new handle. */
  async #forkAs(size: number): Promise<void> {
    const { requests, servers, newHandle, onLeave } = this.#parts;
    const to = newHandle();
    const from = this.#handle;
    try {
      await allSettled(
        servers.map(async (id, server) => {
          const length = partLength(server, size, this.#parts);
          if (length > 0) await requests.clone(id, from, to, length);
        }),
      );
    } catch (error) {
      onLeave(to, 'dropped');
      throw error;
    }
    onLeave(from, 'kept');
    this.#handle = to;
    this.#isKnown = false;
    for (const [server, part] of this.#servers.entries()) {
      part.run = undefined;
      part.isCreated = partLength(server, size, this.#parts) > 0;
    }
  }

  async #cut(size: number): Promise<void> {
    const { stripeBytes, requests, servers } = this.#parts;
    await this.#flushed();
    const stripes = stripesOf(size, stripeBytes);
    const rest = size - (stripes - 1) * stripeBytes;
    let check: number | undefined;
    if (stripes > 0 && rest < stripeLength(stripes - 1, this.#size, stripeBytes)) {
      const kept = Buffer.allocUnsafe(rest);
      await this.#read(kept, (stripes - 1) * stripeBytes);
      check = crc32(kept);
    }
    if (this.#isKnown) {
      await this.#forkAs(size);
    } else {
      await allSettled(
        servers.map(async (id, server) => {
          const length = partLength(server, size, this.#parts);
          if (length === partLength(server, this.#size, this.#parts)) return;
          await requests.setSize(id, this.#handle, length, length);
        }),
      );
    }
    this.#size = size;
    this.#checks.length = stripes;
    if (check !== undefined) this.#checks[stripes - 1] = check;
  }

  /** Fills up with zeros. What lies behind the end at the servers is nothing that counts. */
  async #grow(size: number): Promise<void> {
    const { stripeBytes, requests, servers } = this.#parts;
    await this.#flushed();
    this.#hasChanged = true;
    const before = this.#size;
    await allSettled(
      servers.map(async (id, server) => {
        const keep = partLength(server, before, this.#parts);
        const length = partLength(server, size, this.#parts);
        if (length === keep) return;
        await requests.setSize(id, this.#handle, keep, length);
        this.#servers[server]!.isCreated = true;
      }),
    );
    const zeros = Buffer.alloc(stripeBytes);
    const whole = crc32(zeros);
    const first = Math.floor(before / stripeBytes);
    for (let stripe = first; stripe < stripesOf(size, stripeBytes); stripe += 1) {
      const old = stripeLength(stripe, before, stripeBytes);
      const length = stripeLength(stripe, size, stripeBytes);
      if (length === old) continue;
      const isWhole = old === 0 && length === stripeBytes;
      this.#checks[stripe] = isWhole
        ? whole
        : crc32(zeros.subarray(0, length - old), old === 0 ? 0 : this.#checks[stripe]);
    }
    this.#size = size;
  }

  #read(target: Buffer, position: number): Promise<void> {
    return readStripes(this.#parts.requests, this.layout, this.#size, target, position);
  }

  /** All that a stripe has at its server. */
  async #readStripe(stripe: number, length: number, target: Buffer): Promise<void> {
    const { requests, servers } = this.#parts;
    const { server, offset } = placeOf(stripe, this.#parts);
    const wanted = {
      offset,
      stripeBytes: length,
      crc32: this.#checks[stripe]!,
      from: 0,
      bytes: length,
    };
    (await requests.read(servers[server]!, this.#handle, wanted)).copy(target);
  }
}
