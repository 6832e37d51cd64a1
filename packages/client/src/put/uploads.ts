import { types } from 'node:util';
import {
  type FileMeta,
  type NewFile,
  partMark,
  type Staging,
  StoreError,
} from '@stevedore/staging';
import { MAX_GROUP_BYTES } from '@stevedore/staging/text-limits';
import { receiptOf } from '../holders/holder.js';
import { invalidOption } from '../options.js';
import type { Reads } from '../read/reads.js';
import { type PutMessage, putChannel, traced } from '../store/channels.js';
import type { StoreParts } from '../store/store-parts.js';
import type {
  Body,
  FileStore,
  PutAllOptions,
  PutOptions,
  PutPart,
  Receipt,
  StoreStats,
  UnfinishedUploads,
} from '../store/types.js';
import type { DerivedFiles } from './derived-files.js';
import { DirectBuffer } from './direct-buffer.js';
import { FastdfsTrunkStore } from './fastdfs-trunk-store.js';
import { checkText, Intake, isSync } from './intake.js';
import { onceText } from './once.js';
import { LocalUnfinishedUploads } from './unfinished-uploads.js';

/**
 * The store's uploads: receives bodies and stages them or, in direct mode, writes them to FastDFS.
 * Counts uploads and publishes them on `putChannel`.
 */
export class Uploads {
  readonly #store: FileStore;
  readonly #staging: Staging;
  readonly #reads: Reads;
  readonly #derived: DerivedFiles;
  readonly #intake: Intake;
  readonly direct: DirectBuffer;
  readonly unfinished: UnfinishedUploads;
  readonly #counts = { acknowledgedFiles: 0, acknowledgedBytes: 0, failedUploads: 0 };

  /** `store`: named in the messages of the channels. */
  constructor(store: FileStore, parts: StoreParts, reads: Reads, derived: DerivedFiles) {
    const { staging, options, now } = parts;
    this.#store = store;
    this.#staging = staging;
    this.#reads = reads;
    this.#derived = derived;
    this.#intake = new Intake(staging, options, now);
    this.unfinished = new LocalUnfinishedUploads(this.#intake, reads, options.unfinishedAge, this);
    this.direct = new DirectBuffer({
      trunkStore: new FastdfsTrunkStore(parts.clients.reading),
      newTaskId: () => staging.keys.next(),
      maxWaitMs: options.directMaxWait,
      maxBytes: options.directBuffer,
    });
  }

  put(body: Body, options: PutOptions = {}): Promise<Receipt> {
    // As few calls as possible: every upload passes through here.
    if (!putChannel.hasSubscribers) return this.#put(body, options);
    const { name, type, group } = options;
    const message: PutMessage = { store: this.#store, name, type, group };
    return putChannel.tracePromise(() => this.#put(body, options), message);
  }

  async #put(body: Body, options: PutOptions): Promise<Receipt> {
    const staging = this.#staging;
    try {
      this.#reads.throwIfClosed();
      if (options.mode === 'direct') return await this.#putDirect(body, options);
      const sync = isSync(options);
      const taking = this.#intake.take(body, options);
      const file = types.isPromise(taking) ? await taking : taking;
      if (file.pictureOf) {
        await this.#derived.stage(
          file,
          async (admit) => void (await this.#stage([file], sync, admit)),
        );
        return receiptOf(file, 'staged');
      }
      const isPlain = !staging.copies && !this.#intake.holds(file);
      if (!isPlain) return this.#acknowledged(file, await this.#stage([file], sync));
      await staging.acceptance.stage([file], sync);
      return this.#acknowledged(file);
    } catch (error) {
      this.#counts.failedUploads += 1;
      throw staging.acceptance.noteFailure(error);
    }
  }

  /**
   * Makes received files durable, all or none, with their second copy if one is wanted: not of
   * derived ones, which are `admit`ted. Resolves with the number of copies if one is wanted.
   */
  async #stage(
    files: readonly NewFile[],
    sync: boolean,
    admit?: () => Promise<void>,
  ): Promise<Receipt['copies']> {
    const { acceptance, copies: partner } = this.#staging;
    const copies = admit ? undefined : partner;
    try {
      await admit?.();
      copies?.demand();
      const isCopied = await acceptance.stage(files, sync);
      const count = await copies?.acknowledge(files, isCopied);
      this.#intake.release(files);
      return count;
    } catch (error) {
      await this.#intake.discard(files);
      throw error;
    }
  }

  async #putDirect(body: Body, options: PutOptions): Promise<Receipt> {
    if ([options.expiresAt, options.once, options.pictureOf].some((given) => given !== undefined)) {
      throw invalidOption('mode direct keeps none of expiresAt, once and pictureOf');
    }
    const file = await this.#intake.take(body, { ...options, durability: 'os' });
    const { spool } = this.#staging;
    try {
      const fileId =
        file.at === 'container'
          ? await this.direct.put(file)
          : await this.direct.putWhole(file, () => oneByOne(spool.read(file.key, file)));
      this.#count(file);
      return { ...receiptOf(file, 'staged'), key: fileId, fileId, state: 'merged' };
    } finally {
      await this.#intake.discard([file]);
    }
  }

  putAll(
    parts: Iterable<PutPart> | AsyncIterable<PutPart>,
    options: PutAllOptions = {},
  ): Promise<Receipt[]> {
    if (!putChannel.hasSubscribers) return this.#putAll(parts, options);
    const group = typeof options.group === 'string' ? options.group : undefined;
    const message: PutMessage = { store: this.#store, name: undefined, type: undefined, group };
    return putChannel.tracePromise(() => this.#putAll(parts, options), message);
  }

  async #putAll(
    parts: Iterable<PutPart> | AsyncIterable<PutPart>,
    options: PutAllOptions,
  ): Promise<Receipt[]> {
    const taken: NewFile[] = [];
    try {
      this.#reads.throwIfClosed();
      const { durability, once, signal } = options;
      const sync = isSync(options);
      const shared: PutOptions = { durability, signal, pictureOf: undefined };
      const mark = once && onceText(once);
      for await (const { body, ...rest } of parts) {
        taken.push(await this.#intake.take(body, { ...rest, ...shared }));
        if (signal?.aborted) throw new StoreError('aborted', 'the upload was aborted');
      }
      const given = typeof options.group === 'function' ? options.group() : options.group;
      const group = given === undefined ? undefined : checkText('group', given, MAX_GROUP_BYTES);
      if (group !== undefined) for (const file of taken) file.group = group;
      const count = taken.length;
      for (const [place, file] of taken.entries()) {
        file.once = mark && count > 1 ? partMark(mark, { place, count }) : mark;
      }
      const copies = taken.length > 0 ? await this.#stage(taken, sync) : undefined;
      return taken.map((file) => this.#acknowledged(file, copies));
    } catch (error) {
      this.#counts.failedUploads += 1;
      await this.#intake.discard(taken);
      throw this.#staging.acceptance.noteFailure(error);
    }
  }

  #acknowledged(file: NewFile, copies?: Receipt['copies']): Receipt {
    this.#count(file);
    const receipt = receiptOf(file, 'staged');
    return copies === undefined ? receipt : { ...receipt, copies };
  }

  stored(
    { name, type, group }: FileMeta,
    store: () => Promise<readonly [NewFile, Receipt['copies']]>,
  ): Promise<Receipt> {
    const upload = async (): Promise<Receipt> => {
      try {
        return this.#acknowledged(...(await store()));
      } catch (error) {
        this.#counts.failedUploads += 1;
        throw this.#staging.acceptance.noteFailure(error);
      }
    };
    return traced(putChannel, () => ({ store: this.#store, name, type, group }), upload);
  }

  #count({ size }: Pick<NewFile, 'size'>): void {
    this.#counts.acknowledgedFiles += 1;
    this.#counts.acknowledgedBytes += size;
  }

  stats(): Pick<
    StoreStats,
    'uploadsInFlight' | 'acknowledgedFiles' | 'acknowledgedBytes' | 'failedUploads'
  > {
    return { uploadsInFlight: this.#intake.inFlight, ...this.#counts };
  }
}

async function* oneByOne(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<readonly Uint8Array[]> {
  for await (const chunk of chunks) yield [chunk];
}
