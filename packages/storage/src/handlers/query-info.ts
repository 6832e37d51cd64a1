import {
  decodeFields,
  fileKind,
  parseSliceId,
  QueryInfoFlag,
  queryFileInfo,
  type RemoteFileInfo,
} from '@stevedore/protocol';
import { control, type Handler } from '@stevedore/wire';
import type { StorageService } from '../service.js';
import { crcOf } from './appender.js';

/**
 * QUERY_FILE_INFO: size, time, CRC-32 and source of a file or a slice. The names of
 * appenders and slaves do not tell their CRC-32: it is computed, unless the flag
 * says that it is not wanted.
 */
export function queryInfoHandler<Session>(service: StorageService): Handler<Session> {
  const { identity, settings } = service;
  return control(
    queryFileInfo,
    async (request, { header }): Promise<RemoteFileInfo> => {
      const id = service.requested(request);
      const slice = parseSliceId(id);
      const kind = fileKind(id);
      const named = slice !== undefined || (kind !== 'appender' && kind !== 'slave');
      const { source, createdAtSeconds, crc32 } = decodeFields(id.base);
      const opened = await service.open(id);
      try {
        const computed = async (): Promise<number> =>
          (header.status & QueryInfoFlag.noCrc) !== 0 ? 0 : crcOf(opened, settings.readChunkBytes);
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
