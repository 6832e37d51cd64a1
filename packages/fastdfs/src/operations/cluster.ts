import {
  activeTest,
  type Command,
  type FetchTarget,
  type FileName,
  type GroupRecord,
  isGroupName,
  listAllGroups,
  listOneGroup,
  listStorage,
  queryFetchAll,
  type StorageRecord,
} from '@stevedore/protocol';
import { invalid } from '../body.js';
import { type CallOptions, Deadline } from '../deadline.js';
import { type Context, checkFileId, nameOf } from './context.js';

/** What trackers know: groups, storages, and where a file is. */

const STORAGE_ID = /^[\x21-\x7e]{1,15}$/;

export async function ping(context: Context, options: CallOptions): Promise<void> {
  await ask(context, new Deadline('ping', options), activeTest, undefined);
}

export async function listGroups(
  context: Context,
  options: CallOptions,
): Promise<readonly GroupRecord[]> {
  return ask(context, new Deadline('listGroups', options), listAllGroups, undefined);
}

export async function listGroup(
  context: Context,
  group: string,
  options: CallOptions,
): Promise<GroupRecord> {
  checkGroup('listGroup', group);
  const deadline = new Deadline('listGroup', options);
  const [record] = await ask(context, deadline, listOneGroup, { group });
  if (!record) throw deadline.error('bad_reply', 'the tracker sent no record of the group');
  return record;
}

export async function listStorages(
  context: Context,
  group: string,
  id: string | undefined,
  options: CallOptions,
): Promise<readonly StorageRecord[]> {
  checkGroup('listStorages', group);
  if (id !== undefined && !STORAGE_ID.test(id)) throw invalid('listStorages', `id "${id}"`);
  return ask(context, new Deadline('listStorages', options), listStorage, { group, id: id ?? '' });
}

/** One storage, by the query of choice. */
export async function locate(
  context: Context,
  operation: string,
  command: Command<FileName, FetchTarget>,
  fileId: string,
  options: CallOptions,
): Promise<FetchTarget> {
  const id = checkFileId(operation, fileId);
  return ask(context, new Deadline(operation, options, 0, fileId), command, nameOf(id));
}

export async function locateAll(
  context: Context,
  fileId: string,
  options: CallOptions,
): Promise<readonly FetchTarget[]> {
  const id = checkFileId('locateAll', fileId);
  const deadline = new Deadline('locateAll', options, 0, fileId);
  const { group, servers } = await ask(context, deadline, queryFetchAll, nameOf(id));
  return servers.map((server) => ({ group, ...server }));
}

function ask<Request, Reply>(
  context: Context,
  deadline: Deadline,
  command: Command<Request, Reply>,
  request: Request,
): Promise<Reply> {
  return context.run(deadline, async () => {
    const { reply } = await context.trackers.ask(command, request, deadline);
    return reply;
  });
}

function checkGroup(operation: string, group: string): void {
  if (typeof group !== 'string' || !isGroupName(group))
    throw invalid(operation, `group "${group}"`);
}
