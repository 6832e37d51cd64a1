import { crc32 } from 'node:zlib';
import type { DiskFile, FileStat } from '@stevedore/disk';
import { bytesOf, GrowingBytes } from '../tiers/growing-bytes.js';
import { allSettled, readStripes } from './data-file.js';
import { type Layout, partLength, piecesOf, placeOf, stripeLength, stripesOf } from './layout.js';
import { PartWrites, type PartWritesParts } from './part-writes.js';

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

export interface StripedFileParts extends PartWritesParts {
  readonly stripeBytes: number;
  /** A handle that nobody has. */
  readonly newHandle: () => string;
  /** What a record knows already; else a new file. */
  readonly known: { readonly layout: Layout; readonly size: number } | undefined;
  /** The parts are there already, empty. */
  readonly isCreated: boolean;
  readonly mtimeSeconds: number;
  /** Nothing uses the handle any more: it was closed, or another one took its place. */
  readonly onLeave: (handle: string, what: 'kept' | 'dropped') => void;
}

/** Bytes of a stripe that are not at its server yet, from `from` on. */
interface Gathered {
  readonly stripe: number;
  readonly from: number;
  readonly bytes: GrowingBytes;
}

export class StripedFile implements DiskFile {
  readonly #parts: StripedFileParts;
  readonly #writes: PartWrites;
  #handle: string;
  #checks: number[];
  #size: number;
  /** A record knows the handle: what it knows must not be changed. */
  #isKnown: boolean;
  #hasChanged = false;
  #mtimeSeconds: number;
  #gathered: Gathered | undefined;
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
    this.#writes = new PartWrites(
      parts,
      (server) => parts.isCreated || partLength(server, this.#size, parts) > 0,
    );
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
    this.#writes.throwIfFailed();
  }

  /** True if all parts are there, whatever they have. */
  get isCreated(): boolean {
    return this.#writes.areCreated;
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
    await Promise.all(this.#writes.inFlight());
    this.#parts.onLeave(this.#handle, this.#isKnown ? 'kept' : 'dropped');
  }

  /** One operation at a time, in the order of the calls. */
  #inTurn<Result>(operation: () => Promise<Result>): Promise<Result> {
    const result = this.#turn.then(() => {
      this.#writes.throwIfFailed();
      return operation();
    });
    this.#turn = result.catch(() => {});
    return result;
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
      await this.#writes.arrived();
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
    const how = { offset: place.offset + from, sync };
    await this.#writes.write(place.server, this.#handle, bytes, how);
  }

  /** All bytes are at their servers, synced or not. */
  async #flushed(): Promise<void> {
    await this.#flush();
    await this.#writes.arrived();
  }

  /** Begins to sync every part; a part that gets its only bytes now is synced with them. */
  async #beginSync(): Promise<Promise<unknown>[]> {
    const last = this.#gathered && placeOf(this.#gathered.stripe, this.#parts).server;
    await this.#flush(last !== undefined && this.#writes.isSynced(last));
    const size = this.#size;
    return this.#writes.sync(this.#handle, (server) => partLength(server, size, this.#parts));
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
    this.#writes.beginAnew((server) => partLength(server, size, this.#parts) > 0);
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
        this.#writes.noteCreated(server);
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
