import { crc32 } from 'node:zlib';
import {
  appendFile,
  type FileId,
  fileKind,
  modifyFile,
  NORMAL_NAME_CHARS,
  regenerateAppender,
  Status,
  truncateFile,
} from '@stevedore/protocol';
import { control, type Handler, type Payload, receiving, StatusError } from '@stevedore/wire';
import type { ChangingFile } from '../files/changing-files.js';
import { readInto } from '../files/file-backend.js';
import { type Piece, receivePiece } from '../files/incoming-file.js';
import type { OpenFile } from '../files/open-files.js';
import type { Change } from '../replication/journal.js';
import { requestedFile, type StorageService } from '../service.js';

/**
 * APPEND_FILE, MODIFY_FILE, TRUNCATE_FILE, REGENERATE_APPENDER_FILENAME. Status 2 if the file
 * is missing; otherwise 22 if it is not an appender.
 */
export function appenderHandlers<Session>(service: StorageService): Handler<Session>[] {
  const { store, changing, settings, replication } = service;

  /** Receives the whole payload, then makes the change. */
  const change = async (
    id: FileId,
    payload: Payload,
    apply: (file: ChangingFile, piece: Piece, change: Change) => Promise<void>,
  ): Promise<undefined> => {
    const path = store.pathOf(id);
    await service.storePaths.roomFor(payload.remaining, id.storePathIndex);
    const done = service.storePaths.at(id.storePathIndex).announce(payload.remaining);
    try {
      const piece = await receivePiece(
        settings.disk,
        () => service.storePaths.of(path).temporaryFile(),
        payload,
      );
      await replication.run({ changed: id }, (each) => apply({ path, name: id.name }, piece, each));
    } finally {
      done();
    }
    return undefined;
  };

  return [
    receiving(appendFile, async ({ name }, payload) =>
      change(await appender(service, name), payload, (file, piece, each) =>
        changing.append(file, piece, each),
      ),
    ),
    receiving(modifyFile, async ({ name, offset }, payload) => {
      const id = await appender(service, name);
      await checkOffset(service, id, offset);
      return change(id, payload, (file, piece, each) => changing.modify(file, offset, piece, each));
    }),
    control(truncateFile, async ({ name, size }) => {
      const id = await appender(service, name);
      const file = { path: store.pathOf(id), name: id.name };
      await replication.run({ changed: id }, (each) =>
        changing.truncate(file, size, each, (bytes) =>
          service.storePaths.roomFor(bytes, id.storePathIndex),
        ),
      );
      return undefined;
    }),
    control(regenerateAppender, async ({ name }) => {
      const id = await appender(service, name);
      const source = service.identity.source();
      const renamed = await replication.run({ changed: id }, (each) =>
        changing.exclusively(store.pathOf(id), async (opened) => {
          const crc = await crcOf(opened, settings.readChunkBytes);
          return store.rename(id, { bytes: opened.stat.size, crc32: crc }, source, each);
        }),
      );
      return { group: renamed.group, name: renamed.name };
    }),
  ];
}

/** The appender that a request names; status 22 for a name shorter than any appender's. */
async function appender(service: StorageService, name: string): Promise<FileId> {
  if (name.length < NORMAL_NAME_CHARS) throw new StatusError(Status.invalid, 'a name too short');
  const id = requestedFile(service, { group: service.settings.group, name });
  if (!(await service.backend.exists(service.store.pathOf(id)))) {
    throw new StatusError(Status.notFound, name);
  }
  if (fileKind(id) !== 'appender') throw new StatusError(Status.invalid, `${name} is no appender`);
  return id;
}

/** Refuses early what `modify` would refuse after receiving all bytes. */
async function checkOffset(service: StorageService, id: FileId, offset: number): Promise<void> {
  const opened = await service.changing.acquire(service.store.pathOf(id));
  opened.release();
  if (offset > opened.stat.size) {
    throw new StatusError(Status.invalid, `offset ${offset} of ${opened.stat.size} bytes`);
  }
}

/** CRC-32 of a whole file, or of its first bytes. */
export async function crcOf(
  opened: OpenFile,
  chunkBytes: number,
  bytes = opened.stat.size,
): Promise<number> {
  let crc = 0;
  for (let at = 0; at < bytes; ) {
    const chunk = Buffer.allocUnsafe(Math.min(chunkBytes, bytes - at));
    crc = crc32(await readInto(chunk, opened.file, at), crc);
    at += chunk.length;
  }
  return crc;
}
