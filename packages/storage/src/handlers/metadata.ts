import {
  decodeFields,
  type FileId,
  type FileName,
  fileKind,
  getMetadata,
  NORMAL_NAME_CHARS,
  parseSliceId,
  QueryInfoFlag,
  queryFileInfo,
  type RemoteFileInfo,
  setMetadata,
} from '@stevedore/protocol';
import { control, type Handler } from '@stevedore/wire';
import { crcOf } from '../files/file-backend.js';
import { invalid, notFound } from '../refusals.js';
import { openFile, requestedFile, type StorageService } from '../service.js';

/**
 * SET_METADATA, GET_METADATA. Slices have none: they would lose it when their trunk is
 * rewritten.
 */
export function metadataHandlers<Session>(service: StorageService): Handler<Session>[] {
  const described = (request: FileName): FileId => {
    const id = requestedFile(service, request);
    if (parseSliceId(id)) throw notFound('slices have no metadata');
    return id;
  };
  const pathOf = (id: FileId): string => service.store.pathOf(id);
  return [
    control(setMetadata, async (request) => {
      if (request.name.length < NORMAL_NAME_CHARS - 10) throw invalid('a name too short');
      const id = described(request);
      const file = { path: pathOf(id), name: id.name };
      if (!(await service.backend.exists(file.path))) throw notFound(request.name);
      await service.replication.run({ changed: id }, (change) =>
        service.metadata.set(file, request, change),
      );
      return undefined;
    }),
    control(getMetadata, (request) => service.metadata.get(pathOf(described(request)))),
  ];
}

/**
 * QUERY_FILE_INFO: size, time, CRC-32 and source of a file or a slice. The CRC-32 of
 * appenders and slaves is not in their names: it is computed, unless the request's flag says
 * not to.
 */
export function queryInfoHandler<Session>(service: StorageService): Handler<Session> {
  const { identity } = service;
  return control(
    queryFileInfo,
    async (request, { header }): Promise<RemoteFileInfo> => {
      const id = requestedFile(service, request);
      const slice = parseSliceId(id);
      const kind = fileKind(id);
      const named = slice !== undefined || (kind !== 'appender' && kind !== 'slave');
      const { source, createdAtSeconds, crc32 } = decodeFields(id.base);
      const opened = await openFile(service, id);
      try {
        const computed = async (): Promise<number> =>
          (header.status & QueryInfoFlag.noCrc) !== 0 ? 0 : crcOf(opened.file, opened.stat.size);
        return {
          size: slice ? slice.size : opened.stat.size,
          mtimeSeconds: slice ? createdAtSeconds : opened.stat.mtimeSeconds,
          crc32: named ? crc32 : await computed(),
          sourceAddress: identity.addressOf(source),
        };
      } finally {
        opened.release();
      }
    },
    () => identity.addressWidth,
  );
}
