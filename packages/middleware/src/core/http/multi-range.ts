import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import type { ByteRange, StoredFile } from '@stevedore/client';

/**
 * Several pieces of a file as one `multipart/byteranges` body of known length.
 * The first piece is read before the answer begins, so that an error can still be
 * one; the others as the client takes them, one at a time.
 */

export interface MultiRange {
  readonly contentType: string;
  /** Bytes of the body. */
  readonly length: number;
  readonly content: () => Promise<Readable>;
}

export function multiRange(
  file: StoredFile,
  ranges: readonly ByteRange[],
  type: string,
): MultiRange {
  const boundary = randomBytes(18).toString('base64url');
  const heads = ranges.map(({ start, end }, index) =>
    Buffer.from(
      `${index === 0 ? '' : '\r\n'}--${boundary}\r\nContent-Type: ${type}\r\n` +
        `Content-Range: bytes ${start}-${end}/${file.size}\r\n\r\n`,
      'latin1',
    ),
  );
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`, 'latin1');
  let length = tail.length;
  for (const [index, { start, end }] of ranges.entries()) {
    length += heads[index]!.length + end - start + 1;
  }
  return {
    contentType: `multipart/byteranges; boundary=${boundary}`,
    length,
    content: async () => {
      const first = await pieceOf(file, ranges[0]!);
      return Readable.from(body(file, ranges, heads, tail, first), { objectMode: false });
    },
  };
}

async function* body(
  file: StoredFile,
  ranges: readonly ByteRange[],
  heads: readonly Buffer[],
  tail: Buffer,
  first: Buffer | Readable,
): AsyncGenerator<Buffer> {
  for (const [index, range] of ranges.entries()) {
    yield heads[index]!;
    const piece = index === 0 ? first : await pieceOf(file, range);
    if (Buffer.isBuffer(piece)) yield piece;
    else yield* piece as AsyncIterable<Buffer>;
  }
  yield tail;
}

async function pieceOf(file: StoredFile, range: ByteRange): Promise<Buffer | Readable> {
  const piece = await file.content({ range });
  // It may fail before anybody listens.
  if (!Buffer.isBuffer(piece)) piece.on('error', () => {});
  return piece;
}
