import {
  deleteFile,
  QueryInfoFlag,
  queryFetch,
  queryFileInfo,
  type RemoteFileInfo,
} from '@stevedore/protocol';
import { type CallOptions, Deadline } from '../deadline.js';
import { type Context, checkFileId, nameOf } from './context.js';
import { type ReadOptions, readFromAny } from './reading.js';
import { updateTarget } from './update.js';

/** A file as a whole: what it is, and its end. */

export interface InfoOptions extends ReadOptions {
  /**
   * Whether the storage reads an appender or slave file for its CRC-32, which can take
   * long. Default true; the CRC-32 of such files is 0 otherwise.
   */
  readonly computeCrc?: boolean | undefined;
}

export async function info(
  context: Context,
  fileId: string,
  options: InfoOptions,
): Promise<RemoteFileInfo> {
  const id = checkFileId('info', fileId);
  const flags = options.computeCrc === false ? QueryInfoFlag.noCrc : 0;
  return context.run(new Deadline('info', options, 0, fileId), (deadline) =>
    readFromAny(
      context,
      queryFetch,
      id,
      deadline,
      (storage, stepMs) =>
        context.caller.call(storage, queryFileInfo, nameOf(id), deadline, { stepMs, flags }),
      options.storage,
    ),
  );
}

export async function remove(
  context: Context,
  fileId: string,
  options: CallOptions,
): Promise<void> {
  const id = checkFileId('delete', fileId);
  await context.run(new Deadline('delete', options, 0, fileId), async (deadline) => {
    const storage = await updateTarget(context, id, deadline);
    context.places.forget(id);
    await context.caller.call(storage, deleteFile, nameOf(id), deadline);
  });
}
