import { downloadFile, parseSliceId, Status } from '@stevedore/protocol';
import { StatusError } from '../../errors.js';
import { type Handler, type StreamedReply, streaming } from '../../net/handler.js';
import type { OpenFile } from '../open-files.js';
import type { StorageService } from '../service.js';

/**
 * DOWNLOAD_FILE: bytes of a file, or of a slice with offset and length relative
 * to the slice. More than there is is clamped; nothing at all is status 22, so
 * an empty file cannot be downloaded.
 */
export function downloadHandler<Session>(service: StorageService): Handler<Session> {
  return streaming(downloadFile, async (request) => {
    const id = service.requested(request);
    const slice = parseSliceId(id);
    const opened = await service.open(id);
    const from = slice ? slice.offset : 0;
    const size = slice ? slice.size : opened.stat.size;
    if (request.offset >= size) {
      opened.release();
      throw new StatusError(Status.invalid, `offset ${request.offset} of ${size} bytes`);
    }
    const rest = size - request.offset;
    const bytes = request.length === 0 ? rest : Math.min(request.length, rest);
    return part(opened, from + request.offset, bytes, service.settings.readChunkBytes);
  });
}

function part(opened: OpenFile, from: number, bytes: number, chunkBytes: number): StreamedReply {
  return {
    bytes,
    async read(position) {
      const chunk = Buffer.allocUnsafe(Math.min(chunkBytes, bytes - position));
      const read = await opened.file.readAt(chunk, from + position);
      if (read < chunk.length) throw new Error(`a file is ${chunk.length - read} bytes short`);
      return chunk;
    },
    release: () => opened.release(),
  };
}
