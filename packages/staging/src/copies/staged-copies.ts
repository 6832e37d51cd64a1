import type { Duplex } from 'node:stream';
import { GrowingPause, Wakeup } from '@stevedore/async';
import type { Container, CopiedBatch } from '../container/container.js';
import type { NewFile } from '../container/records.js';
import { StoreError } from '../errors.js';
import { CopyConnection } from './copy-connection.js';
import { CopiesRefused, FrameType, Refusal } from './frames.js';

/**
 * Keeps a copy of the container at a partner. Every batch is sent there while it is written to this
 * disk, and its files are acknowledged once both have it. After an outage, the partner first gets
 * its backlog from this disk; new batches wait only for the last part of it. While there is no
 * partner, a file is acknowledged once FastDFS has it, which is the second copy, or with one copy if
 * that is enough. The map has a deletion then, for who adopts these files.
 */

export interface StagedCopiesOptions {
  /** Connects to the current partner. */
  readonly connect: (signal: AbortSignal) => Promise<Partner>;
  /** False: without a partner, or FastDFS for large files, one copy is enough. */
  readonly isRequired: boolean;
  /** Enters a deletion that the partner lacks in the map. False if no partner has had copies. */
  readonly recordDeletion: (key: Buffer) => Promise<boolean>;
  /** The connection ends if a frame is not acknowledged within this time. */
  readonly deadlineMs: number;
  /** Time for FastDFS to store the second copy of small files. */
  readonly storeDeadlineMs: number;
}

export interface Partner {
  readonly name: string;
  readonly stream: Duplex;
  /**
   * Called with the partner's origin once it has everything, before anything else is acknowledged
   * with its copy. Rejects if that cannot be recorded.
   */
  readonly record: (origin: number) => Promise<void>;
  /** Called when it stops: the next connection should be to another one. */
  readonly onLeaving: () => void;
}

type StagedFile = Pick<NewFile, 'key' | 'at'>;

export interface StagedCopiesParts {
  readonly container: Pick<Container, 'segments' | 'segment' | 'settled'>;
  /**
   * Rewrites records that must outlive confirmed segments; resolves with the first segment to keep.
   */
  readonly firstNeeded: () => Promise<number>;
  /** Merges the files now. Resolves once FastDFS has them. */
  readonly store: (keys: readonly Buffer[], signal: AbortSignal) => Promise<void>;
  /** Why FastDFS stores nothing at the moment. */
  readonly storeFailure: () => Error | undefined;
  /** Deletes files that were not acknowledged. */
  readonly discard: (keys: readonly Buffer[]) => Promise<void>;
  readonly onError: (error: Error) => void;
}

export interface CopiesStats {
  /** The current partner, or the last one. */
  readonly partner: string | undefined;
  readonly state: 'away' | 'catching up' | 'up';
  /** False: without a partner, one copy is enough. */
  readonly isRequired: boolean;
  /** Small files that were acknowledged once FastDFS had them, because the partner was down. */
  readonly copiedToFastdfs: number;
  /** Files that were acknowledged with one copy. */
  readonly withOneCopy: number;
  /** Uploads and deletions refused because the partner was down. */
  readonly refused: number;
  /** Bytes of the container that are not known to be at the partner. */
  readonly lagBytes: number;
}

const CHUNK_BYTES = 2 ** 20;
const CHUNKS_IN_FLIGHT = 4;
/** A backlog up to this size lets new batches join: they wait for the rest of it. */
const JOIN_BYTES = 4 * 2 ** 20;
const PAUSES = { firstMs: 100, lastMs: 1_000 };
/** Time for a large file to reach FastDFS. */
const LARGE_STORE_DEADLINE_MS = 120_000;
/** Interval at which an idle connection is checked. */
const PROBE_INTERVAL_MS = 1_000;

export class StagedCopies {
  readonly isRequired: boolean;
  readonly #options: StagedCopiesOptions;
  #parts: StagedCopiesParts | undefined;
  /** New batches go over this connection once `joined` resolves: then the backlog has been sent. */
  #link: { readonly connection: CopyConnection; readonly joined: Promise<void> } | undefined;
  #state: CopiesStats['state'] = 'away';
  #partner: string | undefined;
  /** Bytes of each segment at the partner. */
  #had = new Map<number, number>();
  /** Segments below this one are no longer needed. */
  #firstNeeded = 0;
  #copiedToFastdfs = 0;
  #withOneCopy = 0;
  #refused = 0;
  /** The partner has taken over the files of this directory. */
  #adopted: Error | undefined;
  /** The current outage has been reported. */
  #isReported = false;
  readonly #stopped = new AbortController();
  readonly #wakeup = new Wakeup();
  #running: Promise<void> | undefined;

  constructor(options: StagedCopiesOptions) {
    this.#options = options;
    this.isRequired = options.isRequired;
  }

  start(parts: StagedCopiesParts): void {
    this.#parts = parts;
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped.abort(new Error('the store is closed'));
    this.#wakeup.wake();
    const link = this.#link;
    if (link) {
      await link.joined.catch(() => undefined);
      await link.connection.finish();
    }
    await this.#running;
  }

  /** True while uploads can get a second copy, or need none. */
  get isAccepting(): boolean {
    if (this.#adopted) return false;
    if (!this.isRequired) return true;
    return this.#link !== undefined || this.#parts?.storeFailure() === undefined;
  }

  /** Throws `partner_away` if uploads must be refused. */
  demand(): void {
    if (this.isAccepting) return;
    this.#refused += 1;
    throw this.#away();
  }

  /** Sends a batch. False if the partner may not have it. Never rejects. */
  copy({ segment, position, pieces }: CopiedBatch): Promise<boolean> {
    const link = this.#link;
    if (!link) return Promise.resolve(false);
    const { connection, joined } = link;
    const end = pieces.reduce((sum, piece) => sum + piece.length, position);
    const sent = joined.then(() => connection.send(FrameType.bytes, segment, position, pieces));
    return sent.then(
      () => {
        this.#had.set(segment, end);
        return true;
      },
      () => {
        if (this.#link === link) this.#noteAway();
        return false;
      },
    );
  }

  /** As `secure`, for an upload. If it throws, the files are deleted. */
  async acknowledge(files: readonly NewFile[], isCopied: boolean): Promise<1 | 2> {
    try {
      const copies = await this.secure(files, isCopied);
      if (copies === 1) this.#withOneCopy += files.length;
      return copies;
    } catch (error) {
      this.#refused += files.length;
      await this.#parts!.discard(files.map(({ key }) => key));
      throw error;
    }
  }

  /**
   * Resolves once staged files have a second copy, with 2. FastDFS has that of large files, which are
   * not in the container, and of files that the partner lacks, if it is required. Resolves with 1 if
   * it is not, and there is none. Throws `partner_away` or `storage_unavailable`.
   */
  async secure(files: readonly StagedFile[], isCopied = this.#isUp): Promise<1 | 2> {
    const { isRequired } = this;
    const isLarge = ({ at }: StagedFile): boolean => at === 'spool';
    const lacking = isCopied ? files.filter(isLarge) : files;
    if (lacking.length === 0) return 2;
    if (!isRequired && (!lacking.every(isLarge) || this.#parts!.storeFailure())) return this.#one();
    const waitsLong = isRequired && lacking.some(isLarge);
    const limitMs = waitsLong ? LARGE_STORE_DEADLINE_MS : this.#options.storeDeadlineMs;
    const keys = lacking.map(({ key }) => key);
    try {
      await this.#parts!.store(keys, AbortSignal.timeout(limitMs));
    } catch (cause) {
      if (!isRequired) return this.#one();
      const message = `FastDFS, which keeps the second copy, did not store it within ${limitMs} ms; check that it is reachable, and retry`;
      throw new StoreError('storage_unavailable', message, { cause });
    }
    if (this.#adopted) throw this.#away();
    for (const file of lacking) if (!isLarge(file)) this.#copiedToFastdfs += 1;
    return 2;
  }

  /**
   * While the partner is away, enters a deletion in the map: true. False if the partner is there,
   * which has all that was written before the call, or if there was none yet. Throws `partner_away`
   * if there is neither partner nor map.
   */
  async secureDeletion(key: Buffer): Promise<boolean> {
    if (this.#isUp) return false;
    try {
      if (!this.#adopted) return await this.#options.recordDeletion(key);
    } catch {}
    this.#refused += 1;
    throw this.#away();
  }

  /** A batch was refused here, but the partner may have it: reconnecting truncates it there. */
  noteRefused(): void {
    this.#link?.connection.close(new Error('a batch was refused by the disk of this server'));
  }

  /** Releases the segments below `firstNeeded` at the partner. */
  release(firstNeeded: number): void {
    this.#firstNeeded = Math.max(this.#firstNeeded, firstNeeded);
    for (const number of this.#had.keys()) if (number < firstNeeded) this.#had.delete(number);
    if (this.#state !== 'up') return;
    const upTo = Math.max(0, this.#firstNeeded - 1);
    this.#link?.connection.send(FrameType.release, upTo, 0).catch(() => undefined);
  }

  stats(): CopiesStats {
    const segments = this.#parts?.container.segments() ?? [];
    const lacking = segments.filter(({ number }) => number >= this.#firstNeeded);
    return {
      partner: this.#partner,
      state: this.#state,
      isRequired: this.isRequired,
      copiedToFastdfs: this.#copiedToFastdfs,
      withOneCopy: this.#withOneCopy,
      refused: this.#refused,
      lagBytes: lacking.reduce(
        (sum, { number, bytes }) => sum + Math.max(0, bytes - (this.#had.get(number) ?? 0)),
        0,
      ),
    };
  }

  get #isUp(): boolean {
    return this.#state === 'up';
  }

  #one(): 1 {
    if (this.#adopted) throw this.#away();
    return 1;
  }

  #away(): StoreError {
    const cause = this.#adopted;
    if (cause) return new StoreError('partner_away', cause.message, { cause, retryable: false });
    return new StoreError(
      'partner_away',
      'the partner that keeps the second copy of staged files is unreachable; start it, or another gateway of the deployment, and retry',
    );
  }

  #noteAway(): void {
    this.#link = undefined;
    this.#state = 'away';
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopped;
    const pause = new GrowingPause(PAUSES);
    while (!signal.aborted) {
      let failure: Error;
      let partner: Partner | undefined;
      try {
        partner = await this.#options.connect(signal);
        this.#partner = partner.name;
        failure = await this.#serve(partner);
        pause.reset();
      } catch (error) {
        failure = error as Error;
      }
      this.#noteAway();
      if (signal.aborted) return;
      this.#report(failure);
      if (this.#adopted) return;
      if (refusalOf(failure) === Refusal.leaving) partner?.onLeaving();
      await this.#wakeup.next(pause.next());
    }
  }

  #report(failure: Error): void {
    if (refusalOf(failure) === Refusal.forGood) this.#adopted = failure;
    if (this.#isReported && !this.#adopted) return;
    this.#isReported = true;
    const then = this.isRequired
      ? 'uploads wait for FastDFS, and deletions for the map'
      : 'uploads are acknowledged with one copy';
    const uploads = this.#adopted ? 'uploads and deletions are refused' : then;
    this.#parts!.onError(
      new StoreError(
        'partner_away',
        `${this.#partner ?? 'the partner'} keeps no second copy of staged files at the moment, ${uploads}: ${failure.message}`,
        { retryable: !this.#adopted },
      ),
    );
  }

  /** Serves the partner until the connection ends. Resolves or rejects with the reason. */
  async #serve({ stream, record }: Partner): Promise<Error> {
    const connection = new CopyConnection(stream, this.#options.deadlineMs);
    try {
      this.#state = 'catching up';
      const { origin, segments } = await connection.held;
      this.#had = new Map(segments);
      await this.#align(connection);
      while (this.stats().lagBytes > JOIN_BYTES) {
        this.#stopped.signal.throwIfAborted();
        await this.#sendLacking(connection);
      }
      // From here on, `stop` ends the connection.
      this.#stopped.signal.throwIfAborted();
      // Batches begun from now on are sent after the rest.
      const joined = this.#parts!.container.settled.then(() => this.#sendLacking(connection)).then(
        () => record(origin),
      );
      this.#link = { connection, joined };
      await joined;
      this.#state = 'up';
      this.#isReported = false;
      this.release(this.#firstNeeded);
      const probe = setInterval(() => this.release(this.#firstNeeded), PROBE_INTERVAL_MS);
      probe.unref();
      try {
        return await connection.ended;
      } finally {
        clearInterval(probe);
      }
    } catch (error) {
      connection.close(error as Error);
      throw error;
    }
  }

  /** Truncates records at the partner that were never acknowledged. */
  async #align(connection: CopyConnection): Promise<void> {
    const { container, firstNeeded } = this.#parts!;
    this.release(await firstNeeded());
    const newest = container.segments().at(-1)?.number ?? 0;
    const last = Math.max(0, ...this.#had.keys());
    for (const [number, bytes] of this.#had) {
      if (number > newest) {
        throw new Error(
          `it has segment ${number}, and the newest one here is ${newest}: this directory is older than the copy`,
        );
      }
      const segment = container.segment(number);
      if (number < this.#firstNeeded || !segment || bytes <= segment.bytes) continue;
      await connection.send(FrameType.cut, number, segment.bytes);
      this.#had.set(number, segment.bytes);
    }
    // Segments can only be added in order. If an older one is missing, all are sent again.
    const lacksOlder = container
      .segments()
      .some(
        (each) =>
          each.number >= this.#firstNeeded && !this.#had.has(each.number) && each.number < last,
      );
    if (lacksOlder) this.#had.clear();
    const released = lacksOlder ? last : Math.max(0, this.#firstNeeded - 1);
    await connection.send(FrameType.release, released, 0);
  }

  /** Sends the valid bytes that the partner lacks, in order. */
  async #sendLacking(connection: CopyConnection): Promise<void> {
    const window: Promise<void>[] = [];
    for (const segment of this.#parts!.container.segments()) {
      const { number, bytes: end } = segment;
      if (number < this.#firstNeeded) continue;
      for (let at = this.#had.get(number) ?? 0; at < end; ) {
        const chunk = await segment.read(at, Math.min(CHUNK_BYTES, end - at));
        if (chunk.length === 0) throw new Error(`segment ${number} ends at ${at}, not at ${end}`);
        const sent = connection.send(FrameType.bytes, number, at, [chunk]);
        at += chunk.length;
        const to = at;
        const noted = sent.then(() => void this.#had.set(number, to));
        noted.catch(() => undefined);
        window.push(noted);
        if (window.length >= CHUNKS_IN_FLIGHT) await window.shift();
      }
    }
    await Promise.all(window);
  }
}

function refusalOf(failure: Error): number | undefined {
  return failure instanceof CopiesRefused ? failure.refusal : undefined;
}
