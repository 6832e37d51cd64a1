import {
  appendFile,
  type Codec,
  type Command,
  type FileName,
  formatFileId,
  modifyFile,
  ProtocolError,
  regenerateAppender,
  truncateFile,
} from '@stevedore/protocol';
import { type Body, type BodyOptions, invalid, isSize, prepareBody } from '../body.js';
import { type CallOptions, Deadline } from '../deadline.js';
import { orphanOf } from '../events.js';
import { checkFileId } from '../file-ids.js';
import type { Context } from './context.js';
import { isUnspent, namedFile } from './upload.js';

/**
 * Changes of appender files. An append or a new name must not happen twice, so they are sent once,
 * over a connection that was tested just before. Writing the same bytes at an offset, or setting
 * the same size, can be repeated.
 */

export type AppendOptions = CallOptions & BodyOptions;

const regenerateNamed: Command<{ readonly name: string }, FileName> = {
  ...regenerateAppender,
  reply: namedFile(regenerateAppender.reply),
};

export async function append(
  context: Context,
  fileId: string,
  body: Body,
  options: AppendOptions,
): Promise<void> {
  const id = checkFileId('append', fileId);
  const prepared = prepareBody('append', body, options);
  const { size, payload } = prepared;
  const deadline = new Deadline('append', options, size, fileId);
  await context.run(
    deadline,
    async () => {
      const storage = await context.updateTarget(id, deadline);
      const request = { name: id.name, size };
      const command = tolerant(appendFile, size === 0 ? appendFile.request.encode(request) : NONE);
      await context.caller.callWithPayload(storage, command, request, payload, deadline, {
        repeatable: false,
      });
    },
    isUnspent(prepared),
  );
}

export async function modify(
  context: Context,
  fileId: string,
  offset: number,
  body: Body,
  options: AppendOptions,
): Promise<void> {
  const id = checkFileId('modify', fileId);
  if (!isSize(offset)) throw invalid('modify', `offset is ${offset}`);
  const prepared = prepareBody('modify', body, options);
  const { size, payload } = prepared;
  const deadline = new Deadline('modify', options, size, fileId);
  await context.run(
    deadline,
    async () => {
      const storage = await context.updateTarget(id, deadline);
      const request = { name: id.name, offset, size };
      const command = tolerant(modifyFile, size === 0 ? modifyFile.request.encode(request) : NONE);
      await context.caller.callWithPayload(storage, command, request, payload, deadline);
    },
    isUnspent(prepared),
  );
}

export async function truncate(
  context: Context,
  fileId: string,
  size: number,
  options: CallOptions,
): Promise<void> {
  const id = checkFileId('truncate', fileId);
  if (!isSize(size)) throw invalid('truncate', `size is ${size}`);
  await context.run(new Deadline('truncate', options, 0, fileId), async (deadline) => {
    const storage = await context.updateTarget(id, deadline);
    const request = { name: id.name, size };
    const command = tolerant(truncateFile, truncateFile.request.encode(request));
    await context.caller.call(storage, command, request, deadline);
  });
}

export async function regenerate(
  context: Context,
  fileId: string,
  options: CallOptions,
): Promise<string> {
  const id = checkFileId('regenerate', fileId);
  return context.run(new Deadline('regenerate', options, 0, fileId), async (deadline) => {
    const storage = await context.updateTarget(id, deadline);
    const request = { name: id.name };
    const stored = await context.caller.call(storage, regenerateNamed, request, deadline, {
      repeatable: false,
      onFailed: (failed) => context.reportOrphan(orphanOf(failed, 'regenerate', undefined, fileId)),
    });
    return formatFileId(stored);
  });
}

const NONE = Buffer.alloc(0);

/**
 * The command with a reply that is empty or as long as the request's body: stock storages echo it
 * if there was nothing to do. Its content is ignored.
 */
function tolerant<C extends Pick<Command<never, undefined>, 'name' | 'reply'>>(
  command: C,
  echo: Buffer,
): C {
  const reply: Codec<undefined> = {
    encode: command.reply.encode,
    decode(bytes) {
      if (bytes.length === 0 || bytes.length === echo.length) return undefined;
      throw new ProtocolError(`expected no body, got ${bytes.length} bytes`);
    },
  };
  return { ...command, reply };
}
