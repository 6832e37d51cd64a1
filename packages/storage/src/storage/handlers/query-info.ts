import { isIPv4 } from 'node:net';
import {
  decodeFields,
  parseSliceId,
  queryFileInfo,
  type RemoteFileInfo,
} from '@stevedore/protocol';
import { control, type Handler } from '../../net/handler.js';
import type { StorageService } from '../service.js';

/** QUERY_FILE_INFO: size, time, CRC-32 and source of a file or a slice. */
export function queryInfoHandler<Session>(service: StorageService): Handler<Session> {
  return control(
    queryFileInfo,
    async (request): Promise<RemoteFileInfo> => {
      const id = service.requested(request);
      const slice = parseSliceId(id);
      const { store, slices, files } = service;
      const opened = slice
        ? await slices.open(slice, store.pathOf(slice.trunk))
        : await files.acquire(store.pathOf(id));
      opened.release();
      const { source, createdAtSeconds, crc32 } = decodeFields(id.base);
      return {
        size: slice ? slice.size : opened.stat.size,
        mtimeSeconds: slice ? createdAtSeconds : opened.stat.mtimeSeconds,
        crc32,
        sourceAddress: isIPv4(source) ? source : '',
      };
    },
    () => service.identity.addressWidth,
  );
}
