import { crc32 } from 'node:zlib';
import {
  activeTest,
  appendFile,
  decodeFields,
  decodeMetadata,
  deleteFile,
  downloadFile,
  encodeHeader,
  encodeListingLine,
  encodeMetadata,
  type FileName,
  fetchOnePathBinlog,
  getMetadata,
  type IpWidth,
  LISTING_END_BYTES,
  modifyFile,
  OPEN_BODY_BYTES,
  type PayloadCommand,
  ProtocolError,
  parseFileName,
  QueryInfoFlag,
  queryFileInfo,
  REPLY_COMMAND,
  regenerateAppender,
  Status,
  setMetadata,
  truncateFile,
  uploadAppenderFile,
  uploadFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import type { MemoryFiles } from './memory-files.js';
import { type Handler, type Handlers, handle } from './node.js';

/** A storage's answers, with the statuses of a stock one. */

export interface MemoryStorageOptions {
  readonly files: MemoryFiles;
  readonly group: string;
  /** Storage id, as file names carry it. */
  readonly id: string;
  readonly host: string;
  readonly width: IpWidth;
}

export function storageHandlers(options: MemoryStorageOptions): Handlers {
  const { files, group, id, host, width } = options;
  const named = (name: string): FileName => ({ group, name });
  const own = (request: FileName): string => {
    if (request.group !== group) throw new ProtocolError(`group ${request.group}`);
    return request.name;
  };
  const payloads: [number, Handler][] = [
    handlePayload(uploadFile, ({ extension }, bytes) =>
      named(files.add(bytes, extension, id, false)),
    ),
    handlePayload(uploadAppenderFile, ({ extension }, bytes) =>
      named(files.add(bytes, extension, id, true)),
    ),
    handlePayload(uploadSlaveFile, ({ master, prefix, extension }, bytes) =>
      named(files.addSlave(master, prefix, extension, bytes)),
    ),
    handlePayload(appendFile, ({ name }, bytes) => {
      const file = files.appender(name);
      file.bytes = Buffer.concat([file.bytes, bytes]);
      return undefined;
    }),
    handlePayload(modifyFile, ({ name, offset }, bytes) => {
      const file = files.appender(name);
      if (offset > file.bytes.length) throw new ProtocolError(`offset ${offset}`);
      const after = file.bytes.subarray(offset + bytes.length);
      file.bytes = Buffer.concat([file.bytes.subarray(0, offset), bytes, after]);
      return undefined;
    }),
  ];
  return new Map<number, Handler>([
    ...payloads,
    handle(activeTest, () => undefined),
    handle(truncateFile, ({ name, size }) => {
      const file = files.appender(name);
      const bytes = Buffer.alloc(size);
      file.bytes.copy(bytes);
      file.bytes = bytes;
      return undefined;
    }),
    handle(regenerateAppender, ({ name }) => named(files.regenerate(name))),
    handle(deleteFile, (request) => {
      files.remove(own(request));
      return undefined;
    }),
    handle(setMetadata, (request) => {
      const file = files.get(own(request));
      const before = request.mode === 'merge' ? file.metadata : [];
      file.metadata = new Map([...before, ...Object.entries(decodeMetadata(request.metadata))]);
      return undefined;
    }),
    handle(getMetadata, (request) => {
      const { metadata } = files.get(own(request));
      if (metadata.size === 0) throw new ProtocolError('no metadata', Status.notFound);
      return encodeMetadata(Object.fromEntries(metadata));
    }),
    handle(
      queryFileInfo,
      (request, flags) => {
        const file = files.get(own(request));
        const computed = flags & QueryInfoFlag.noCrc ? 0 : crc32(file.bytes);
        return {
          size: file.bytes.length,
          mtimeSeconds: file.mtimeSeconds,
          crc32: file.crc32 ?? computed,
          sourceAddress: host,
        };
      },
      (info) => queryFileInfo.reply.encode(info, width),
    ),
    handle(downloadFile, (request) => {
      const { bytes } = files.get(own(request));
      const { offset, length } = request;
      // Stock storages refuse an empty file too.
      if (offset >= bytes.length) throw new ProtocolError(`offset ${offset}`);
      return bytes.subarray(offset, length === 0 ? undefined : offset + length);
    }),
    [
      fetchOnePathBinlog.code,
      (body) => {
        const request = fetchOnePathBinlog.request.decode(body);
        if (request.group !== group || request.storePathIndex > 0) throw new ProtocolError('path');
        return { bytes: listing(files, id) };
      },
    ],
  ]);
}

/** All files, with the length that says nothing before them and the true one behind. */
function listing(files: MemoryFiles, id: string): Buffer {
  const lines = [...files.entries()].map(({ name, seconds }) => {
    const fields = parseFileName('group', name);
    const isSource = fields !== undefined && decodeFields(fields.base).source === id;
    return encodeListingLine({ seconds, name, isSource });
  });
  const text = Buffer.from(lines.join(''), 'latin1');
  const end = Buffer.alloc(LISTING_END_BYTES);
  end.writeBigInt64BE(BigInt(text.length));
  const head = { bodyBytes: OPEN_BODY_BYTES, command: REPLY_COMMAND, status: Status.ok };
  return Buffer.concat([encodeHeader(head), text, end]);
}

/** As `handle`, for a command that bytes of a file follow. */
function handlePayload<Request, Reply>(
  command: PayloadCommand<Request, Reply>,
  answer: (request: Request, bytes: Buffer) => Reply,
): [number, Handler] {
  return [
    command.code,
    (body) => {
      if (body.length < command.minHeadBytes) throw new ProtocolError('a request too short');
      const headBytes = command.headBytes(body.subarray(0, command.minHeadBytes));
      const request = command.request.decode(body.subarray(0, headBytes));
      const bytes = body.subarray(headBytes);
      if (bytes.length !== command.payloadBytes(request)) {
        throw new ProtocolError(`${bytes.length} bytes of body`);
      }
      return command.reply.encode(answer(request, bytes));
    },
  ];
}
