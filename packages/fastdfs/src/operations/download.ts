import { randomUUID } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type FileId, queryFetch, queryFileInfo, Status } from '@stevedore/protocol';
import type { Address } from '../address.js';
import { invalid, isSize } from '../body.js';
import { Deadline } from '../deadline.js';
import { type Download, downloadWhole, emptyDownload, openDownload } from '../download.js';
import { FastdfsError } from '../errors.js';
import { type Context, checkFileId, nameOf } from './context.js';
import { type Attempt, type ReadOptions, readFromAny } from './reading.js';

/** Downloads: as a stream, in one piece, into a file. */

export interface DownloadOptions extends ReadOptions {
  /** First byte wanted. Default 0. */
  readonly offset?: number | undefined;
  /** Bytes wanted at most; 0 answers nothing without asking a server. Default: to the end. */
  readonly length?: number | undefined;
}

export interface DownloadBytesOptions extends DownloadOptions {
  /** More bytes than this are refused with `too_large`. Default 64 MiB. */
  readonly maxBytes?: number | undefined;
}

const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;

/** The deadline is settled by the end of the stream. */
export async function download(
  context: Context,
  fileId: string,
  options: DownloadOptions,
): Promise<Download> {
  const id = checkFileId('download', fileId);
  const range = checkRange('download', options);
  if (range === undefined) return emptyDownload();
  const deadline = new Deadline('download', options, range.length, fileId);
  const { caller } = context;
  try {
    const attempt: Attempt<Download> = async (storage, stepMs) => {
      const request = { ...nameOf(id), ...range };
      try {
        return await openDownload(caller, storage, request, deadline, stepMs);
      } catch (error) {
        await rethrowUnlessEmpty(context, error, id, range.offset, storage, deadline);
        deadline.settle();
        return emptyDownload();
      }
    };
    return await context.repeatWhileBusy(deadline, () =>
      readFromAny(context, queryFetch, id, deadline, attempt, options.storage),
    );
  } catch (error) {
    deadline.settle();
    throw error;
  }
}

export async function downloadBytes(
  context: Context,
  fileId: string,
  options: DownloadBytesOptions,
): Promise<Buffer> {
  const id = checkFileId('download', fileId);
  const range = checkRange('download', options);
  const maxBytes = options.maxBytes ?? DEFAULT_MAX_BYTES;
  if (!isSize(maxBytes)) throw invalid('download', `maxBytes is ${maxBytes}`);
  if (range === undefined) return Buffer.alloc(0);
  return context.run(new Deadline('download', options, range.length, fileId), (deadline) => {
    const attempt: Attempt<Buffer> = async (storage, stepMs) => {
      const request = { ...nameOf(id), ...range };
      try {
        return await downloadWhole(context.caller, storage, request, maxBytes, deadline, stepMs);
      } catch (error) {
        await rethrowUnlessEmpty(context, error, id, range.offset, storage, deadline);
        return Buffer.alloc(0);
      }
    };
    return readFromAny(context, queryFetch, id, deadline, attempt, options.storage);
  });
}

/** The file appears under its name only when it is whole and on the disk. */
export async function downloadToFile(
  context: Context,
  fileId: string,
  path: string,
  options: DownloadOptions,
): Promise<{ readonly size: number }> {
  const { size, stream } = await download(context, fileId, options);
  const temporary = join(dirname(path), `.${basename(path)}.${randomUUID()}.part`);
  try {
    const handle = await open(temporary, 'wx');
    try {
      await pipeline(stream, async (chunks: AsyncIterable<Uint8Array>) => {
        for await (const chunk of chunks) await handle.appendFile(chunk);
      });
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
    await syncDirectory(dirname(path));
    return { size };
  } catch (error) {
    stream.destroy();
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Makes the new name last; not every system lets a directory be opened. */
async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r').catch(() => undefined);
  if (!handle) return;
  try {
    await handle.sync().catch(() => {});
  } finally {
    await handle.close();
  }
}

/** A stock storage refuses to send a file of 0 bytes; its info tells whether it is one. */
async function rethrowUnlessEmpty(
  context: Context,
  error: unknown,
  id: FileId,
  offset: number,
  storage: Address,
  deadline: Deadline,
): Promise<void> {
  const refused = error instanceof FastdfsError && error.status === Status.invalid;
  if (!refused || offset > 0) throw error;
  const info = await context.caller
    .call(storage, queryFileInfo, nameOf(id), deadline)
    .catch(() => undefined);
  deadline.throwIfEnded();
  if (info?.size !== 0) throw error;
}

/** Offset and length as the protocol has them, 0 meaning to the end; undefined for no bytes. */
function checkRange(
  operation: string,
  { offset = 0, length }: DownloadOptions,
): { offset: number; length: number } | undefined {
  if (!isSize(offset)) throw invalid(operation, `offset is ${offset}`);
  if (length !== undefined && !isSize(length)) throw invalid(operation, `length is ${length}`);
  return length === 0 ? undefined : { offset, length: length ?? 0 };
}
