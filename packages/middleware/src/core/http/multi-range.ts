import { randomBytes } from 'node:crypto';
import type { ByteRange } from '@stevedore/client';
import type { ContentPart } from './paced-content.js';

/** Several ranges of a file as one `multipart/byteranges` body of known length. */

export interface MultiRange {
  readonly contentType: string;
  /** Bytes of the body. */
  readonly length: number;
  readonly parts: readonly ContentPart[];
}

export function multiRange(
  fileBytes: number,
  ranges: readonly ByteRange[],
  type: string,
): MultiRange {
  const boundary = randomBytes(18).toString('base64url');
  const parts: ContentPart[] = [];
  let length = 0;
  const add = (part: ContentPart): void => {
    parts.push(part);
    length += Buffer.isBuffer(part) ? part.length : part.end - part.start + 1;
  };
  for (const [index, range] of ranges.entries()) {
    const head =
      `${index === 0 ? '' : '\r\n'}--${boundary}\r\nContent-Type: ${type}\r\n` +
      `Content-Range: bytes ${range.start}-${range.end}/${fileBytes}\r\n\r\n`;
    add(Buffer.from(head, 'latin1'));
    add(range);
  }
  add(Buffer.from(`\r\n--${boundary}--\r\n`, 'latin1'));
  return { contentType: `multipart/byteranges; boundary=${boundary}`, length, parts };
}
