import { Readable } from 'node:stream';
import {
  DownloadFlag,
  type DownloadRequest,
  downloadFile,
  type FileId,
  type FrameHeader,
  formatFileId,
  ProtocolError,
  queryFetch,
  queryFileInfo,
  type ServerAddress,
  Status,
} from '@stevedore/protocol';
import { type Address, type CallPlan, ReceivedReply } from '@stevedore/wire';
import { invalid, isSize } from '../body.js';
import { Deadline } from '../deadline.js';
import { FastdfsError, Redirect } from '../errors.js';
import { checkFileId, factsOf, nameOf } from '../file-ids.js';
import { type Download, openStream } from '../streaming.js';
import type { Context } from './context.js';
import { type ReadOptions, readFrom } from './reading.js';

/** Downloads: as a stream, or in one piece. */

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
  const open: Open<Download> = (storage, request, plan) => {
    const check = (header: FrameHeader): void => checkAnnounced(header, request.length);
    return openStream(context, storage, { command: downloadFile, request, check }, deadline, plan);
  };
  const wanted = { context, range, only: options.storage, deadline, open, empty: emptyDownload };
  return context.run(deadline, () => readRange(wanted, id));
}

/** At most `maxBytes` in memory; more is refused with `too_large` before any is read. */
export async function downloadBytes(
  context: Context,
  fileId: string,
  options: DownloadBytesOptions,
): Promise<Buffer> {
  const id = checkFileId('download', fileId);
  const range = checkRange('download', options);
  const { maxBytes = DEFAULT_MAX_BYTES } = options;
  if (maxBytes !== DEFAULT_MAX_BYTES && !isSize(maxBytes))
    throw invalid('download', `maxBytes is ${maxBytes}`);
  if (range === undefined) return Buffer.alloc(0);
  const deadline = new Deadline('download', options, range.length, fileId);
  const open: Open<Buffer> = (storage, request, plan) => {
    const onHead = (header: FrameHeader): void => {
      checkAnnounced(header, request.length);
      const { bodyBytes } = header;
      deadline.allowBytes(bodyBytes);
      if (bodyBytes <= maxBytes) return;
      const message = `${bodyBytes} bytes, ${maxBytes} are allowed`;
      throw deadline.error('too_large', message, { address: storage.text });
    };
    const reply = new ReceivedReply({ maxBytes, onHead });
    return context.caller.receive(storage, downloadFile, request, reply, deadline, plan);
  };
  const empty = () => Buffer.alloc(0);
  const wanted = { context, range, only: options.storage, deadline, open, empty };
  return context.run(deadline, () => readRange(wanted, id));
}

/** How bytes are read from one storage. */
type Open<T> = (storage: Address, request: DownloadRequest, plan: CallPlan) => Promise<T>;

/** A range of a file from any storage that has it. */
interface Wanted<T> {
  readonly context: Context;
  readonly range: Range;
  /** Asks only this storage. */
  readonly only: ServerAddress | undefined;
  readonly deadline: Deadline;
  readonly open: Open<T>;
  /** The result for no bytes. */
  readonly empty: () => T;
}

/**
 * Reads a file, also one whose bytes its storage has moved to another group. The first read is
 * answered with the place there, an ordinary id, which is read from and remembered for a while. If
 * the place does not answer, the file's own storage is asked, which fetches the bytes.
 */
async function readRange<T>(wanted: Wanted<T>, id: FileId): Promise<T> {
  const { places, settings } = wanted.context;
  // Who names a storage wants that one's answer.
  if (!settings.followMoves || wanted.only) return readAt(wanted, id, 0);
  let place = places.size > 0 ? places.get(formatFileId(id)) : undefined;
  if (!place) {
    try {
      return await readAt(wanted, id, DownloadFlag.placeWanted);
    } catch (error) {
      if (!(error instanceof Redirect)) throw error;
      place = error.place;
      places.set(formatFileId(id), place);
    }
  }
  try {
    return await readAt(wanted, place, 0);
  } catch (error) {
    wanted.deadline.throwIfEnded();
    if (!(error instanceof FastdfsError) || error.code === 'too_large') throw error;
    places.delete(formatFileId(id));
    return readAt(wanted, id, 0);
  }
}

function readAt<T>(wanted: Wanted<T>, id: FileId, flags: number): Promise<T> {
  const { context, deadline, only, range, open } = wanted;
  const facts = factsOf(id);
  const isBehind = facts.size !== undefined && range.offset > facts.size;
  const attempt = (storage: Address, stepMs: number): Promise<T> => {
    const plan = { stepMs, flags };
    if (isBehind) return openAtEnd(wanted, id, storage, plan);
    const request = { ...range, group: id.group, name: id.name };
    return open(storage, request, plan).catch((error) =>
      openClipped(wanted, id, storage, plan, range, error),
    );
  };
  return readFrom({ context, id, facts, deadline, attempt }, queryFetch, only);
}

/**
 * Storages before 6.15.4 never answer if a range starts behind the end of the file. If the id says
 * that it does, and the storage agrees, the request asks for the end itself, which every version
 * answers.
 */
async function openAtEnd<T>(
  wanted: Wanted<T>,
  id: FileId,
  storage: Address,
  plan: CallPlan,
): Promise<T> {
  const { context, range, deadline, open } = wanted;
  const info = await context.caller.call(storage, queryFileInfo, nameOf(id), deadline);
  const request = { ...range, ...nameOf(id), offset: Math.min(range.offset, info.size) };
  try {
    return await open(storage, request, plan);
  } catch (error) {
    return openClipped(wanted, id, storage, plan, request, error);
  }
}

/**
 * Stock storages refuse to send an empty file, and those before 6.15.4 a range that ends behind the
 * file. The file's info shows whether this is such a case, and what is left of the range; otherwise
 * the error is thrown.
 */
async function openClipped<T>(
  { context, range, deadline, open, empty }: Wanted<T>,
  id: FileId,
  storage: Address,
  { stepMs }: CallPlan,
  asked: Range,
  error: unknown,
): Promise<T> {
  const { offset, length } = range;
  if (!(error instanceof FastdfsError && error.status === Status.invalid)) throw error;
  if (offset > 0 && length === 0) throw error;
  const info = await context.caller
    .call(storage, queryFileInfo, nameOf(id), deadline)
    .catch(() => undefined);
  deadline.throwIfEnded();
  if (info?.size === 0 && offset === 0) return empty();
  if (!info || offset >= info.size || offset + length <= info.size) throw error;
  const request = { ...nameOf(id), offset: asked.offset, length: info.size - offset };
  return open(storage, request, { stepMs });
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

function checkAnnounced({ bodyBytes }: FrameHeader, requested: number): void {
  if (requested === 0 || bodyBytes <= requested) return;
  throw new ProtocolError(`${bodyBytes} bytes are announced, ${requested} were requested`);
}

/** An empty stream. */
function emptyDownload(): Download {
  const stream = new Readable({ read() {} });
  stream.push(null);
  return { size: 0, stream };
}
