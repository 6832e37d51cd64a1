import { type Duplex, duplexPair } from 'node:stream';
import { HeldCopies, type StagedCopiesOptions } from '@stevedore/staging';
import { onTestFinished } from 'vitest';

/** Origin of every test partner. */
export const PARTNER_ORIGIN = 77;

const heldBy = (folder: string) => ({ folder, origin: PARTNER_ORIGIN, now: Date.now });

/** A partner in this process: the connection to it can be cut, halved and refused. */
export class TestPartner {
  readonly folder: string;
  held: HeldCopies;
  isAway = false;
  /** Bytes that go through before a connection breaks. */
  breaksAfterBytes = Number.POSITIVE_INFINITY;
  /** The map says that another server has these files. */
  isAdopted = false;
  /** The partner reads, and answers nothing. */
  isSilent = false;
  /** The holder cannot be recorded. */
  cannotRecord = false;
  readonly recorded: number[] = [];
  isMapAway = false;
  /** In the map. */
  readonly deletions: Buffer[] = [];
  /** How often it has said that it leaves. */
  leaves = 0;
  connections = 0;
  readonly #origin: () => number;
  readonly #limitBytes: number;
  readonly #open = new Set<Duplex>();
  readonly #receiving = new Set<Promise<void>>();

  private constructor(folder: string, held: HeldCopies, origin: () => number, limitBytes: number) {
    this.folder = folder;
    this.held = held;
    this.#origin = origin;
    this.#limitBytes = limitBytes;
    onTestFinished(() => this.stop());
  }

  static async start(folder: string, origin: () => number, limitBytes = 2 ** 30) {
    const held = await HeldCopies.open({ ...heldBy(folder), limitBytes });
    return new TestPartner(folder, held, origin, limitBytes);
  }

  options(deadlineMs = 2_000, isRequired = true): StagedCopiesOptions {
    const recordDeletion = async (key: Buffer): Promise<boolean> => {
      if (this.isMapAway) throw new Error('the map is away');
      this.deletions.push(key);
      return true;
    };
    const connect = async () => this.#connect();
    return { isRequired, deadlineMs, storeDeadlineMs: deadlineMs, connect, recordDeletion };
  }

  #connect() {
    if (this.isAway) throw new Error('the partner is away');
    this.connections += 1;
    const [near, far] = duplexPair();
    const [inner, outer] = duplexPair();
    let left = this.breaksAfterBytes;
    const end = (): void => {
      for (const stream of [near, far, inner, outer]) stream.destroy();
    };
    far.on('data', (chunk: Buffer) => {
      const passed = chunk.subarray(0, left);
      left -= passed.length;
      if (passed.length > 0 && !inner.destroyed) inner.write(passed);
      if (left === 0) end();
    });
    inner.on('data', (chunk: Buffer) => {
      if (!this.isSilent && !far.destroyed) far.write(chunk);
    });
    far.on('end', () => inner.end());
    inner.on('end', () => far.end());
    for (const stream of [near, far, inner, outer]) {
      stream.on('error', () => undefined);
      stream.on('close', end);
    }
    this.#open.add(near);
    const receiving = this.held.receive(this.#origin(), outer, this.isAdopted);
    this.#receiving.add(receiving);
    receiving.finally(() => this.#receiving.delete(receiving));
    const record = async (origin: number): Promise<void> => {
      if (this.cannotRecord) throw new Error('the map is away');
      this.recorded.push(origin);
    };
    const onLeaving = (): void => {
      this.leaves += 1;
    };
    return { name: 'the partner', stream: near, record, onLeaving };
  }

  /** Every connection breaks. */
  cut(): void {
    for (const stream of this.#open) stream.destroy();
    this.#open.clear();
  }

  async stop(): Promise<void> {
    this.isAway = true;
    this.cut();
    await Promise.all(this.#receiving);
    await this.held.close();
  }

  /** As after a restart of its process. */
  async restart(): Promise<void> {
    await this.stop();
    const { folder } = this;
    this.held = await HeldCopies.open({ ...heldBy(folder), limitBytes: this.#limitBytes });
    this.isAway = false;
  }
}
