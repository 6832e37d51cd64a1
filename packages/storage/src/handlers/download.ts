import { DownloadFlag, downloadFile } from '@stevedore/protocol';
import { type Handler, type Reply, type StreamedReply, streaming } from '@stevedore/wire';
import { CHUNK_BYTES, readInto } from '../files/file-backend.js';
import type { OpenFile } from '../files/open-files.js';
import { type Download, downloadOf, type FileRange } from '../files/small-files.js';
import { invalid } from '../refusals.js';
import { openFile, requestedFile, type StorageService } from '../service.js';

/**
 * DOWNLOAD_FILE: bytes of a file, or of a slice with offset and length relative to the slice.
 * A range that extends beyond the end is clamped. One that begins at or beyond it is status
 * 22, so an empty file cannot be downloaded.
 */
export function downloadHandler<Session>(
  service: StorageService,
  backend: DownloadBackend | undefined,
): Handler<Session> {
  return streaming(downloadFile, (request, { header }) => {
    const id = requestedFile(service, request);
    const download = downloadOf(id, service.store.pathOf(id), request);
    if (!backend) return answer(service, download);
    const isInMemory = service.cache.has(download.path);
    const isPlaceWanted = (header.status & DownloadFlag.placeWanted) !== 0;
    const read = async (): Promise<Reply> => answer(service, download);
    return backend.download({ ...download, isInMemory, isPlaceWanted }, read);
  });
}

export interface BackendDownload extends Download {
  readonly isInMemory: boolean;
  /** The client reads bytes that are in another group there, if it is told where. */
  readonly isPlaceWanted: boolean;
}

/** Decides when a download is read. */
export interface DownloadBackend {
  /** Rejects with status `redirect` if the client is to read in another group. */
  download(download: BackendDownload, read: () => Promise<Reply>): Promise<Reply>;
}

/** Without a promise if the bytes are in memory. */
function answer(service: StorageService, download: Download): Reply | Promise<Reply> {
  const small = smallFile(service, download);
  return Buffer.isBuffer(small) ? partOf(small, download) : answerLater(service, download, small);
}

async function answerLater(
  service: StorageService,
  download: Download,
  reading: Promise<Buffer | undefined> | undefined,
): Promise<Reply> {
  const { id, slice } = download;
  const small = await reading;
  if (small) return partOf(small, download);
  const opened = await openFile(service, id);
  const from = slice ? slice.offset : 0;
  try {
    const size = slice ? slice.size : opened.stat.size;
    const { offset, bytes } = rangeOf(download, size);
    return await part(opened, from + offset, bytes);
  } catch (error) {
    opened.release();
    throw error;
  }
}

/** A request for a part does not wait for the whole file, but uses it if it is in memory. */
function smallFile(
  service: StorageService,
  download: Download,
): Buffer | undefined | Promise<Buffer | undefined> {
  const { offset, length, size } = download;
  const whole = offset === 0 && (length === 0 || length === size);
  return whole ? service.small.read(download) : service.small.find(download);
}

/** The requested bytes, clamped; status 22 if there are none. */
function rangeOf({ offset, length }: FileRange, size: number): { offset: number; bytes: number } {
  if (offset >= size) throw invalid(`offset ${offset} of ${size} bytes`);
  const rest = size - offset;
  return { offset, bytes: length === 0 ? rest : Math.min(length, rest) };
}

function partOf(file: Buffer, range: FileRange): Buffer {
  const { offset, bytes } = rangeOf(range, file.length);
  return bytes === file.length ? file : file.subarray(offset, offset + bytes);
}

/** Reads the first bytes before the answer begins, so that a failure can still be a status. */
async function part(opened: OpenFile, from: number, bytes: number): Promise<StreamedReply> {
  const read = (position: number): Promise<Buffer> => {
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, bytes - position));
    return readInto(chunk, opened.file, from + position);
  };
  let first: Buffer | undefined = await read(0);
  return {
    bytes,
    async read(position) {
      if (position > 0 || !first) return read(position);
      const chunk = first;
      first = undefined;
      return chunk;
    },
    release: () => opened.release(),
  };
}
