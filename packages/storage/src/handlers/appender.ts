import {
  appendFile,
  type FileId,
  fileKind,
  modifyFile,
  NORMAL_NAME_CHARS,
  regenerateAppender,
  truncateFile,
} from '@stevedore/protocol';
import { control, type Handler, type Payload, receiving } from '@stevedore/wire';
import type { ChangingFile } from '../files/changing-files.js';
import { crcOf } from '../files/file-backend.js';
import type { Piece } from '../files/incoming-file.js';
import { invalid, notFound } from '../refusals.js';
import type { Change } from '../replication/journal.js';
import { requestedFile, type StorageService } from '../service.js';

/**
 * APPEND_FILE, MODIFY_FILE, TRUNCATE_FILE, REGENERATE_APPENDER_FILENAME. Status 2 if the file
 * is missing; otherwise 22 if it is not an appender.
 */
export function appenderHandlers<Session>(service: StorageService): Handler<Session>[] {
  const { store, changing, replication } = service;

  /** Receives the whole payload, then makes the change. */
  const change = async (
    id: FileId,
    payload: Payload,
    apply: (file: ChangingFile, piece: Piece, change: Change) => Promise<void>,
  ): Promise<undefined> => {
    const file = { path: store.pathOf(id), name: id.name };
    await changing.receiving(id.storePathIndex, payload, (piece) =>
      replication.run({ changed: id }, (each) => apply(file, piece, each)),
    );
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
      return replication.run({ changed: id }, (each) =>
        changing.exclusively(store.pathOf(id), async (opened) => {
          const bytes = opened.stat.size;
          const content = { bytes, crc32: await crcOf(opened.file, bytes) };
          return store.rename(id, content, source, each);
        }),
      );
    }),
  ];
}

/** The appender that a request names; status 22 for a name shorter than any appender's. */
async function appender(service: StorageService, name: string): Promise<FileId> {
  if (name.length < NORMAL_NAME_CHARS) throw invalid('a name too short');
  const id = requestedFile(service, { group: service.settings.group, name });
  if (!(await service.backend.exists(service.store.pathOf(id)))) throw notFound(name);
  if (fileKind(id) !== 'appender') throw invalid(`${name} is no appender`);
  return id;
}

/** Refuses early what `modify` would refuse after receiving all bytes. */
async function checkOffset(service: StorageService, id: FileId, offset: number): Promise<void> {
  const opened = await service.changing.acquire(service.store.pathOf(id));
  opened.release();
  if (offset > opened.stat.size) throw invalid(`offset ${offset} of ${opened.stat.size} bytes`);
}
