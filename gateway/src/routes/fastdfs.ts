import type { FileStore } from '@stevedore/client';
import { ProblemError, typeOfExtension } from '@stevedore/middleware/core';
import { extensionOf, type FileId, fileKind, isTrunkId, parseFileId } from '@stevedore/protocol';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { route } from '../http/methods.js';
import { serveFile } from '../http/serve-file.js';

/**
 * `/group1/M00/..`: files by their FastDFS ids, plain or of a slice. The path is
 * decoded once and has to be an id then; anything else is not found. A trunk
 * holds the files of many, so its id is honoured only where an operator says so.
 */
export function fastdfsRoutes(app: FastifyInstance, store: FileStore, serveTrunks: boolean): void {
  const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const params = request.params as { readonly group: string; readonly '*': string };
    const text = `${params.group}/${params['*']}`;
    const id = parseFileId(text);
    const kind = id && kindOf(id);
    if (!id || kind === undefined || (!serveTrunks && mayBeTrunk(id))) throw notFound();
    const file = await store.get(text);
    return serveFile(request, reply, file, {
      type: typeOfExtension(extensionOf(id.base)),
      name: file.name === '' ? id.base : file.name,
      immutable: kind !== 'appender',
    });
  };
  route(app, '/:group/*', { GET: serve, HEAD: serve });
}

function mayBeTrunk(id: FileId): boolean {
  return isTrunkId(id) || /\.merged$/i.test(id.base);
}

/** Undefined for a name whose 27 characters are not those of 20 bytes. */
function kindOf(id: FileId): ReturnType<typeof fileKind> | undefined {
  try {
    return fileKind(id);
  } catch {
    return undefined;
  }
}

function notFound(): ProblemError {
  return new ProblemError('not_found', 'There is no such file.');
}
