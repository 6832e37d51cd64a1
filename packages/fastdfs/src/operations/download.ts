import { randomUUID } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  type DownloadRequest,
  downloadFile,
  encodeRequest,
  type FileId,
  type FrameHeader,
  ProtocolError,
  queryFetch,
  queryFileInfo,
  Status,
} from '@stevedore/protocol';
import { type Address, CollectedReply, ReplyReader, type ReplySink } from '@stevedore/wire';
import { invalid, isSize } from '../body.js';
import { type Caller, checkStatus } from '../caller.js';
import { Deadline } from '../deadline.js';
import { FastdfsError } from '../errors.js';
import { checkFileId, nameOf, toldSize } from '../file-ids.js';
import { checkPlace, type Download, openStream } from '../streaming.js';
import type { Context } from './context.js';
import { type Attempt, Reading, type ReadOptions, readAtPlace } from './reading.js';

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

/** The end of the stream settles the deadline. */
export async function download(
  context: Context,
  fileId: string,
  options: DownloadOptions,
): Promise<Download> {
  const id = checkFileId('download', fileId);
  const range = checkRange('download', options);
  if (range === undefined) return emptyDownload();
  const deadline = new Deadline('download', options, range.length, fileId);
  try {
    return await context.repeatWhileBusy(deadline, () =>
      readRange(context, id, range, options, deadline, {
        open: (...request) => openDownload(context.caller, deadline, ...request),
        empty() {
          deadline.settle();
          return emptyDownload();
        },
      }),
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
  return context.run(new Deadline('download', options, range.length, fileId), (deadline) =>
    readRange(context, id, range, options, deadline, {
      open: (...request) => downloadWhole(context.caller, deadline, maxBytes, ...request),
      empty: () => Buffer.alloc(0),
    }),
  );
}

/** The file appears under its name only when it is complete and on disk. */
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

/** Makes the new name durable; not every system can open a directory. */
async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r').catch(() => undefined);
  if (!handle) return;
  try {
    await handle.sync().catch(() => {});
  } finally {
    await handle.close();
  }
}

/** How bytes are read from one storage. */
interface RangeReader<T> {
  open(storage: Address, request: DownloadRequest, stepMs: number, flags: number): Promise<T>;
  /** The result for no bytes. */
  empty(): T;
}

/** A range of a file from any storage that has it, with workarounds for earlier servers. */
function readRange<T>(
  context: Context,
  id: FileId,
  range: Range,
  options: ReadOptions,
  deadline: Deadline,
  { open, empty }: RangeReader<T>,
): Promise<T> {
  return readAtPlace(context, id, deadline, options, (at, flags) => {
    const attempt: Attempt<T> = async (storage, stepMs) => {
      const start = await startInFile(context, at, range, storage, deadline);
      const request = { ...nameOf(at), ...start };
      try {
        return await open(storage, request, stepMs, flags);
      } catch (error) {
        const length = await lengthInFile(context, error, at, range, storage, deadline);
        return length === 0 ? empty() : open(storage, { ...request, length }, stepMs, 0);
      }
    };
    return new Reading(context, at, deadline, attempt).from(queryFetch, options.storage);
  });
}

/**
 * Stock storages refuse to send an empty file, and those before 6.15.4 a range that ends behind the
 * file. The file's info shows whether this is such a case, and what is left of the range; otherwise
 * the error is thrown.
 */
async function lengthInFile(
  context: Context,
  error: unknown,
  id: FileId,
  { offset, length }: Range,
  storage: Address,
  deadline: Deadline,
): Promise<number> {
  if (!(error instanceof FastdfsError && error.status === Status.invalid)) throw error;
  if (offset > 0 && length === 0) throw error;
  const info = await context.caller
    .call(storage, queryFileInfo, nameOf(id), deadline)
    .catch(() => undefined);
  deadline.throwIfEnded();
  if (info?.size === 0 && offset === 0) return 0;
  if (!info || offset >= info.size || offset + length <= info.size) throw error;
  return info.size - offset;
}

/**
 * Storages before 6.15.4 never answer if a range starts behind the end of the file. If the id says
 * that it does, and the storage agrees, the request asks for the end itself, which every version
 * answers.
 */
async function startInFile(
  context: Context,
  id: FileId,
  range: Range,
  storage: Address,
  deadline: Deadline,
): Promise<Range> {
  const size = toldSize(id);
  if (size === undefined || range.offset <= size) return range;
  const info = await context.caller.call(storage, queryFileInfo, nameOf(id), deadline);
  return { ...range, offset: Math.min(range.offset, info.size) };
}

interface Range {
  readonly offset: number;
  /** 0: to the end. */
  readonly length: number;
}

/** Offset and length for the protocol, where 0 means to the end; undefined for no bytes. */
function checkRange(operation: string, { offset = 0, length }: DownloadOptions): Range | undefined {
  if (!isSize(offset)) throw invalid(operation, `offset is ${offset}`);
  if (length !== undefined && !isSize(length)) throw invalid(operation, `length is ${length}`);
  return length === 0 ? undefined : { offset, length: length ?? 0 };
}

/** Settles the deadline once the stream has ended. */
function openDownload(
  caller: Caller,
  deadline: Deadline,
  address: Address,
  request: DownloadRequest,
  stepMs: number,
  flags: number,
): Promise<Download> {
  const frame = encodeRequest(downloadFile, request, flags);
  const check = (header: FrameHeader): void => checkAnnounced(header, request.length);
  return openStream(caller, address, { frame, check }, deadline, stepMs);
}

/** At most `maxBytes` in memory; more is refused with `too_large` before any is read. */
function downloadWhole(
  caller: Caller,
  deadline: Deadline,
  maxBytes: number,
  address: Address,
  request: DownloadRequest,
  stepMs: number,
  flags: number,
): Promise<Buffer> {
  const frame = encodeRequest(downloadFile, request, flags);
  return caller.withConnection(address, deadline, stepMs, async (connection) => {
    const reply = new CollectedReply(maxBytes, (bytes) => {
      const tooLarge = `${bytes} bytes, ${maxBytes} are allowed`;
      const error = deadline.error('too_large', tooLarge, { address: address.text });
      connection.destroy(error);
      return error;
    });
    const sink: ReplySink = {
      head(header) {
        checkAnnounced(header, request.length);
        reply.head(header);
        if (header.status === Status.ok) deadline.allowBytes(header.bodyBytes);
      },
      chunk: (bytes) => reply.chunk(bytes),
    };
    const progressMs = caller.progressMs(stepMs);
    await connection.exchange([frame], new ReplyReader(sink), deadline, progressMs);
    checkPlace(reply.status, reply.body);
    checkStatus(connection, reply.status, deadline);
    return reply.body;
  });
}

function checkAnnounced(header: FrameHeader, requested: number): void {
  if (header.status === Status.ok && requested > 0 && header.bodyBytes > requested) {
    throw new ProtocolError(`${header.bodyBytes} bytes are announced, ${requested} were requested`);
  }
}

/** An empty stream. */
function emptyDownload(): Download {
  const stream = new Readable({ read() {} });
  stream.push(null);
  return { size: 0, stream };
}
