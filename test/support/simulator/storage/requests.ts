import {
  type Command,
  encodeRequest,
  encodeRequestHead,
  HEADER_BYTES,
  type PayloadCommand,
} from '@stevedore/protocol';
import { ConnectionError, Payload } from '@stevedore/wire';
import type { OpenedStorage } from '../../../../packages/storage/dist/open-storage.js';

/** Requests to the handlers of a storage, without sockets: each gives the bytes of its reply. */

/** Of a client. */
const session = { address: '127.0.0.1', peer: '' };
const IDLE_MS = 1000;

export async function handleRequest<Request, Answer>(
  { handlers }: OpenedStorage,
  command: Command<Request, Answer>,
  request: Request,
): Promise<Buffer> {
  const bytes = encodeRequest(command, request);
  const header = { command: command.code, bodyBytes: bytes.length - HEADER_BYTES, status: 0 };
  const handler = handlers.get(command.code);
  if (handler?.kind !== 'control') throw new TypeError(`no handler of ${command.name}`);
  return replyBytes(await handler.handle(bytes.subarray(HEADER_BYTES), { header, session }));
}

/** With a file; the client leaves after `sent` bytes of it. */
export async function handleFile<Request, Answer>(
  { handlers }: OpenedStorage,
  command: PayloadCommand<Request, Answer>,
  request: Request,
  file: Buffer,
  sent: number,
): Promise<Buffer> {
  const head = encodeRequestHead(command, request).subarray(HEADER_BYTES);
  const header = { command: command.code, bodyBytes: head.length + file.length, status: 0 };
  const handler = handlers.get(command.code);
  if (handler?.kind !== 'payload') throw new TypeError(`no handler of ${command.name}`);
  const source = inChunks(file.subarray(0, sent), Math.ceil(file.length / 3));
  const payload = new Payload(source, file.length, IDLE_MS);
  return replyBytes(await handler.handle(head, payload, { header, session }));
}

interface Streamed {
  readonly bytes: number;
  read(position: number): Promise<Buffer>;
  release(): void;
}

async function replyBytes(reply: unknown): Promise<Buffer> {
  if (Buffer.isBuffer(reply)) return reply;
  const { bytes, read, release } = reply as Streamed;
  try {
    const chunks: Buffer[] = [];
    for (let at = 0; at < bytes; at += chunks.at(-1)!.length) chunks.push(await read(at));
    return Buffer.concat(chunks);
  } finally {
    release();
  }
}

/** A connection that brings so much at a time, and then ends. */
function inChunks(bytes: Buffer, chunkBytes: number) {
  let at = 0;
  return {
    async some(most: number): Promise<Buffer[]> {
      if (at >= bytes.length) throw new ConnectionError('connection_lost', 'the client left');
      const chunk = bytes.subarray(at, Math.min(at + chunkBytes, at + most));
      at += chunk.length;
      return [chunk];
    },
  };
}
