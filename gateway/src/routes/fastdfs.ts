import { DEFAULT_TYPE, ProblemError } from '@stevedore/middleware/core';
import { extensionOf, type FileId, fileKind, isTrunkId, parseFileId } from '@stevedore/protocol';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { lookup } from 'mime-types';
import type { AskedBy } from '../access/access.js';
import { route } from '../http/methods.js';
import { answerRequest, sendFile } from '../http/serve-file.js';
import type { FileRoutes } from './files.js';

/**
 * `/group1/M00/..`: files by their FastDFS ids, plain or of a slice, as the FastDFS
 * nginx module serves them: with its anti-leech token where one is asked for, and
 * with `filename` for an attachment of that name. The path is decoded once and has
 * to be an id then: 400 for a wrong one below a store path, 404 elsewhere. A trunk
 * holds the files of many, so its id is honoured only where an operator says so.
 */
export interface FastdfsRoutes extends FileRoutes {
  readonly serveTrunks: boolean;
}

/** What the path of an id looks like up to its file. */
const STORE_PATH = /^M[0-9A-Fa-f]{2}\//;

export function fastdfsRoutes(app: FastifyInstance, routes: FastdfsRoutes): void {
  const { store, access, inlineTypes, resourcePolicy, unsent, serveTrunks } = routes;
  const serve = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { text, id, kind } = named(request);
    const asked = request as AskedBy;
    const grant = access.readId(asked, text, id.name);
    const file = await store.get(text);
    const attachment = attachmentName(asked);
    const presentation = {
      type: lookup(extensionOf(id.base)) || DEFAULT_TYPE,
      name: attachment ?? (file.name === '' ? id.base : file.name),
      immutable: kind !== 'appender',
      inlineTypes,
      resourcePolicy,
      ...grant,
    };
    const isAttachment = attachment !== undefined;
    const answer = await answerRequest(request, file, presentation, unsent, isAttachment);
    return sendFile(reply, answer, unsent);
  };

  const remove = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { text } = named(request);
    access.removeId(request as AskedBy);
    await store.delete(text);
    return reply.code(204).send();
  };

  const named = (request: FastifyRequest): NamedFile => {
    const params = request.params as { readonly group: string; readonly '*': string };
    const name = params['*'];
    const text = `${params.group}/${name}`;
    const id = parseFileId(text);
    const kind = id && kindOf(id);
    if (!id || kind === undefined) throw STORE_PATH.test(name) ? noId() : notFound();
    if (!serveTrunks && mayBeTrunk(id)) throw notFound();
    return { text, id, kind };
  };
  route(app, '/:group/*', { GET: serve, HEAD: serve, DELETE: remove });
}

interface NamedFile {
  readonly text: string;
  readonly id: FileId;
  readonly kind: ReturnType<typeof fileKind>;
}

/** `?filename=`: the client wants to keep the file, under this name. */
function attachmentName({ query }: AskedBy): string | undefined {
  const { filename } = query;
  return typeof filename === 'string' && filename !== '' ? filename : undefined;
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

function noId(): ProblemError {
  return new ProblemError('invalid_file_id', 'This is not the path of a file in FastDFS.');
}
