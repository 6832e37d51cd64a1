import { PassThrough, pipeline, Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { StoreError } from '@stevedore/staging';
import type { ByteRange, FileInfo, ReadOptions, StoredFile } from './types.js';

/** What is known of a file, whoever knows it. */
export type FileFacts = Omit<FileInfo, 'key'> & { readonly key?: string };

export type ReadContent = (
  range: ByteRange | undefined,
  signal: AbortSignal | undefined,
) => Promise<Buffer | Readable>;

/** Facts with the means to read. */
export function makeStoredFile(facts: FileFacts, read: ReadContent): StoredFile {
  const content = async (options: ReadOptions = {}): Promise<Buffer | Readable> => {
    checkRange(options.range, facts.size);
    options.signal?.throwIfAborted();
    return read(options.range, options.signal);
  };
  const stream = (options?: ReadOptions): Readable => {
    const output = new PassThrough();
    content(options).then(
      (bytes) => {
        if (Buffer.isBuffer(bytes)) output.end(bytes);
        // A failure of either side reaches the reader through `output`.
        else pipeline(bytes, output, () => undefined);
      },
      (error) => output.destroy(error as Error),
    );
    return output;
  };
  return {
    ...facts,
    etag: `"${facts.crc32.toString(16).padStart(8, '0')}-${facts.size.toString(16)}"`,
    content,
    stream,
    async bytes(options) {
      const bytes = await content(options);
      return Buffer.isBuffer(bytes) ? bytes : collect(bytes);
    },
    web: (options) => Readable.toWeb(stream(options)) as ReadableStream<Uint8Array>,
  };
}

async function collect(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function checkRange(range: ByteRange | undefined, size: number): void {
  if (!range) return;
  const { start, end } = range;
  const whole = Number.isSafeInteger(start) && Number.isSafeInteger(end);
  if (whole && start >= 0 && start <= end && end < size) return;
  throw new StoreError(
    'range_not_satisfiable',
    `bytes ${start} to ${end} are not in a file of ${size} bytes`,
  );
}
