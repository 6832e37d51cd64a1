import type { Readable } from 'node:stream';
import {
  addressText,
  decodeListingLine,
  type FetchTarget,
  type FrameHeader,
  fetchOnePathBinlog,
  isGroupName,
  LISTING_END_BYTES,
  type ListingLine,
  MAX_LISTING_LINE_BYTES,
  OPEN_BODY_BYTES,
  ProtocolError,
} from '@stevedore/protocol';
import { invalid } from '../body.js';
import { type CallOptions, Deadline } from '../deadline.js';
import { openStream } from '../streaming.js';
import type { Context } from './context.js';

/**
 * A storage's list of its files, streamed: memory holds no more than the stream's buffer and one
 * line. The list is complete only if the number at its end matches its size; a connection that ends
 * sooner is an error, never a short list.
 */

/** A storage, and which of its store paths. */
export interface ListFilesOptions extends CallOptions {
  /** Default 0. */
  readonly storePathIndex?: number | undefined;
}

export interface ListedFile {
  readonly fileId: string;
  /** When the file came to this storage. */
  readonly changedAt: Date;
  /** True if a client uploaded it here, false if a peer sent it. */
  readonly isSource: boolean;
  /** The file that this link points to. */
  readonly linkTo?: string;
}

export async function* listFiles(
  context: Context,
  { group, address, port }: FetchTarget,
  options: ListFilesOptions,
): AsyncGenerator<ListedFile> {
  if (!isGroupName(group)) throw invalid('listFiles', `group "${group}"`);
  const { storePathIndex = 0 } = options;
  if (!Number.isInteger(storePathIndex) || storePathIndex < 0 || storePathIndex > 255) {
    throw invalid('listFiles', `storePathIndex is ${storePathIndex}`);
  }
  const deadline = new Deadline('listFiles', options);
  let stream: Readable | undefined;
  try {
    if (context.caller.pool.closed) throw deadline.error('closed', 'the client is closed');
    const storage = context.addresses.named({ address, port }, deadline);
    const request = { group, storePathIndex };
    const asked = { command: fetchOnePathBinlog, request, mayBeOpen: true, check: checkListing };
    const plan = { stepMs: deadline.remainingMs };
    ({ stream } = await openStream(context, storage, asked, deadline, plan));
    for await (const { seconds, isSource, name, linkTo } of linesOf(stream)) {
      const file = { fileId: `${group}/${name}`, changedAt: new Date(seconds * 1000), isSource };
      yield linkTo === undefined ? file : { ...file, linkTo: `${group}/${linkTo}` };
    }
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    const details = { address: addressText(address, port), cause: error };
    throw deadline.error('bad_reply', error.message, details);
  } finally {
    stream?.destroy();
    deadline.settle();
  }
}

function checkListing({ bodyBytes }: FrameHeader): void {
  if (bodyBytes === OPEN_BODY_BYTES) return;
  throw new ProtocolError(`a listing announces ${bodyBytes} bytes`);
}

/** Throws ProtocolError for a malformed or incomplete listing. */
async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<ListingLine> {
  let rest: Buffer = Buffer.alloc(0);
  let textBytes = 0;
  for await (const chunk of chunks) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    // The bytes of the final number may look like the end of a line.
    const limit = bytes.length - LISTING_END_BYTES;
    for (;;) {
      const end = bytes.indexOf(0x0a, at);
      if (end < 0 || end >= limit) break;
      yield decodeListingLine(bytes.toString('latin1', at, end));
      at = end + 1;
    }
    textBytes += at;
    rest = bytes.subarray(at);
    if (rest.length > MAX_LISTING_LINE_BYTES + LISTING_END_BYTES) {
      throw new ProtocolError('a listing has a line without an end');
    }
  }
  if (rest.length !== LISTING_END_BYTES || Number(rest.readBigInt64BE()) !== textBytes) {
    throw new ProtocolError('a listing ends before its end');
  }
}
