import type { NewRecord } from './record.js';
import { BATCH_BYTES, BATCH_RECORDS, MIN_HALF_BYTES } from './record.js';
import type { NewFile } from './records.js';

/**
 * The queue of group commit: appends that wait, and which of them make the next batch. Under load a
 * batch is half of all bytes in flight: while one half is written, the other half is collected.
 */

/** What is appended: a new file, or another record. */
export type Entry = NewFile | NewRecord;

export interface Append {
  readonly entries: readonly Entry[];
  readonly bytes: number;
  readonly sync: boolean;
  readonly resolve: (isCopied: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** How many turns of the event loop a batch waits for further appends. */
const MAX_GATHER_TURNS = 16;

export class AppendQueue {
  #waiting: Append[] = [];
  /** Bytes of the waiting appends. */
  bytes = 0;
  /** Bytes of the batches that are in flight. */
  #bytesUnderWay = 0;
  /** Appends of the batch that was taken last. */
  #lastBatch = 0;
  /** Bytes that make a batch: half of all that was in flight when the last one was taken. */
  #halfBytes = MIN_HALF_BYTES;
  /** Ends the gathering of a batch. */
  #go: () => void = () => {};

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  add(append: Append): void {
    this.#waiting.push(append);
    this.bytes += append.bytes;
    if (this.bytes >= this.#halfBytes) this.#go();
  }

  /** True if no other append waits or is in flight to share the batch. */
  get isAlone(): boolean {
    return this.#waiting.length === 1 && this.#lastBatch <= 1 && this.#bytesUnderWay === 0;
  }

  /**
   * Waits for further appends. Clients that were answered together send together and share a batch.
   * A batch that is large enough is written at once, even while more appends arrive.
   */
  async gather(): Promise<void> {
    let seen = 0;
    for (let turn = 0; turn < MAX_GATHER_TURNS && this.#waiting.length > seen; turn++) {
      if (this.bytes >= this.#halfBytes) return;
      seen = this.#waiting.length;
      await new Promise<void>((resolve) => {
        this.#go = resolve;
        setImmediate(resolve);
      });
    }
  }

  /** Takes the next batch, within its limits. Call `settle` once it is acknowledged or refused. */
  take(): { readonly appends: readonly Append[]; readonly settle: () => void } {
    const half = Math.ceil((this.bytes + this.#bytesUnderWay) / 2);
    this.#halfBytes = Math.min(BATCH_BYTES, Math.max(MIN_HALF_BYTES, half));
    let bytes = 0;
    let records = 0;
    let count = 0;
    for (const append of this.#waiting) {
      if (count > 0 && (bytes + append.bytes > this.#halfBytes || records >= BATCH_RECORDS)) break;
      bytes += append.bytes;
      records += append.entries.length;
      count += 1;
    }
    this.bytes -= bytes;
    this.#lastBatch = count;
    this.#bytesUnderWay += bytes;
    const settle = (): void => {
      this.#bytesUnderWay -= bytes;
    };
    return { appends: this.#waiting.splice(0, count), settle };
  }
}
