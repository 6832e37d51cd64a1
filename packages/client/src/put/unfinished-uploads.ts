import { crc32 } from 'node:zlib';
import {
  type FileMeta,
  formatKey,
  type NewFile,
  parseKey,
  type StagedUpload,
  StoreError,
  smallFile,
  spooledFile,
  withStoreErrors,
} from '@stevedore/staging';
import { invalidOption } from '../options.js';
import { notFound } from '../read/failures.js';
import type { Reads } from '../read/reads.js';
import type {
  AppendOptions,
  BeginOptions,
  Body,
  Receipt,
  UnfinishedUpload,
  UnfinishedUploads,
} from '../store/types.js';
import { readBody, tooLarge } from './body.js';
import { checkMeta, checkText, type Intake } from './intake.js';
import { onceText } from './once.js';

/**
 * Resumable uploads, in the container's `unfinished` folder. A finished one is staged like any
 * other file; until its record is durable, it remains an unfinished upload.
 */
export interface Acknowledging {
  /** Counts the upload, and acknowledges its file. */
  stored(
    meta: FileMeta,
    store: () => Promise<readonly [NewFile, Receipt['copies']]>,
  ): Promise<Receipt>;
}

const MAX_NOTE_BYTES = 8 * 1024;
const MAX_OWNER_BYTES = 1024;

export class LocalUnfinishedUploads implements UnfinishedUploads {
  readonly maxAgeMs: number;
  readonly #intake: Intake;
  readonly #reads: Reads;
  readonly #uploads: Acknowledging;

  constructor(intake: Intake, reads: Reads, maxAgeMs: number, uploads: Acknowledging) {
    this.#intake = intake;
    this.#reads = reads;
    this.maxAgeMs = maxAgeMs;
    this.#uploads = uploads;
  }

  async begin(options: BeginOptions = {}): Promise<UnfinishedUpload> {
    const { size, ttlMs, once, note = '', owner } = options;
    const { staging, limits, now } = this.#intake;
    this.#reads.throwIfClosed();
    const { name, type, group } = checkMeta(options);
    checkText('note', note, MAX_NOTE_BYTES);
    if (owner) checkText('owner', owner.name, MAX_OWNER_BYTES);
    if (size !== undefined) this.#checkSize(size);
    if (ttlMs !== undefined && !(Number.isSafeInteger(ttlMs) && ttlMs > 0)) {
      throw invalidOption('ttlMs: a whole number from 1 on is needed');
    }
    await staging.acceptance.makeRoom(Math.min(size ?? 0, limits.maxFileBytes));
    const key = staging.keys.next();
    const about = {
      name,
      type,
      createdAt: now(),
      note,
      group,
      ttlMs,
      once: once && onceText(once),
      owner: owner?.name,
    };
    try {
      const begun = await staging.unfinished.begin(key, about, size, owner?.maxUploads);
      return viewOf(formatKey(key), begun);
    } catch (error) {
      throw staging.acceptance.noteFailure(error);
    }
  }

  find(id: string): UnfinishedUpload | undefined {
    const key = parseKey(id);
    const found = key && this.#intake.staging.unfinished.find(key);
    return found && viewOf(id, found);
  }

  findOnce(once: Uint8Array): UnfinishedUpload | undefined {
    const key = this.#intake.staging.unfinished.findOnce(onceText(once));
    return key && this.find(formatKey(key));
  }

  async settled(id: string): Promise<UnfinishedUpload | undefined> {
    const key = parseKey(id);
    if (key) await this.#intake.staging.unfinished.settled(key);
    return this.find(id);
  }

  async append(
    id: string,
    offset: number,
    body: Body,
    options: AppendOptions = {},
  ): Promise<number> {
    const { staging, limits } = this.#intake;
    const content = readBody(body, options, limits.maxFileBytes - offset);
    const chunks = Buffer.isBuffer(content) ? [content] : content;
    try {
      return await staging.unfinished.append(this.#key(id), offset, chunks, {
        check: options.check,
        beforeWrite: () => {
          this.#reads.throwIfClosed();
          staging.acceptance.checkRoom();
        },
      });
    } catch (error) {
      throw staging.acceptance.noteFailure(error);
    }
  }

  async declareSize(id: string, size: number): Promise<void> {
    this.#checkSize(size);
    const key = this.#key(id);
    await withStoreErrors(() => this.#intake.staging.unfinished.declareSize(key, size));
  }

  read(id: string, start = 0, end = this.find(id)?.offset ?? 0): AsyncIterable<Uint8Array> {
    return this.#intake.staging.unfinished.read(this.#key(id), start, end);
  }

  async finish(id: string, options: Pick<BeginOptions, 'once'> = {}): Promise<Receipt> {
    const key = this.#key(id);
    const { staging, limits, now } = this.#intake;
    const { unfinished, acceptance, copies } = staging;
    const upload = unfinished.find(key);
    if (!upload) throw notFound(id);
    const { durableBytes: size, sizeBytes } = upload;
    if (size !== sizeBytes) {
      const message = `the upload ${id} has ${size} of ${sizeBytes ?? 'an unknown number of'} bytes; send the rest`;
      throw new StoreError('length_mismatch', message);
    }
    const { name, type, group, ttlMs } = upload.about;
    const once = upload.about.once ?? (options.once && onceText(options.once));
    const meta: FileMeta = { name, type, group };
    return this.#uploads.stored(meta, async () => {
      const stagedAt = now();
      const expiresAt = ttlMs === undefined ? undefined : stagedAt + ttlMs;
      const about = { ...meta, once, key, size, stagedAt, expiresAt };
      let file: NewFile | undefined;
      let isCopied = true;
      const accept = async (staged: NewFile): Promise<void> => {
        copies?.demand();
        isCopied = await acceptance.stage([staged], limits.sync);
        file = staged;
      };
      if (size > limits.smallFileBytes) {
        await unfinished.finishSpooled(key, (sums) =>
          accept(spooledFile({ ...about, crc32: sums.crc32 }, sums.list())),
        );
      } else {
        await unfinished.finishSmall(key, (bytes) =>
          accept(smallFile({ ...about, crc32: crc32(bytes) }, [bytes])),
        );
      }
      return [file!, await copies?.acknowledge([file!], isCopied)];
    });
  }

  async remove(id: string): Promise<void> {
    const key = this.#key(id);
    await withStoreErrors(() => this.#intake.staging.unfinished.remove(key));
  }

  #key(id: string): Buffer {
    this.#reads.throwIfClosed();
    const key = parseKey(id);
    if (!key) throw notFound(id);
    return key;
  }

  #checkSize(size: number): void {
    if (!Number.isSafeInteger(size) || size < 0) {
      throw invalidOption('size: a whole number from 0 on is needed');
    }
    const { maxFileBytes } = this.#intake.limits;
    if (size > maxFileBytes) throw tooLarge(maxFileBytes);
  }
}

function viewOf(id: string, { about, sizeBytes, durableBytes }: StagedUpload): UnfinishedUpload {
  const { createdAt, once, owner: _, ...rest } = about;
  return {
    id,
    ...rest,
    createdAt: new Date(createdAt),
    offset: durableBytes,
    ...(once === undefined ? {} : { once: Buffer.from(once, 'base64url') }),
    ...(sizeBytes === undefined ? {} : { size: sizeBytes }),
  };
}
