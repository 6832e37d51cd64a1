import {
  type Codec,
  type FileName,
  formatFileId,
  isExtension,
  isGroupName,
  type PayloadCommand,
  ProtocolError,
  parseFileName,
  queryStore,
  queryStoreInGroup,
  queryStoreInGroupAll,
  SLAVE_PREFIX_BYTES,
  type StoreTarget,
  slaveName,
  type UploadRequest,
  uploadAppenderFile,
  uploadFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import type { Address, CallPlan, FailedExchange, PreparedBody } from '@stevedore/wire';
import { type Body, type BodyOptions, invalid, prepareBody } from '../body.js';
import { type CallOptions, Deadline } from '../deadline.js';
import { FastdfsError, type FastdfsErrorCode } from '../errors.js';
import { orphanOf } from '../events.js';
import { checkFileId, storedExtension } from '../file-ids.js';
import type { TrackerReply } from '../trackers.js';
import type { Context } from './context.js';
import type { Lease } from './shared-answers.js';

/**
 * Uploads of new files. If a storage cannot be reached, or is lost before any byte of its reply,
 * another of the group is tried, provided that the body can be sent again. What the lost storage
 * may have stored is reported as a possible orphan.
 */

export interface UploadOptions extends CallOptions, BodyOptions {
  /** Without its dot, at most 6 of `A-Z a-z 0-9 . _ -`. Default none. */
  readonly extension?: string | undefined;
  /** 1 to 16 letters and digits. Default: the tracker chooses. */
  readonly group?: string | undefined;
}

/** A storage, and the store path for the request. */
interface Place {
  readonly storage: Address;
  readonly storePathIndex: number;
}

const MAX_STORAGES = 3;
const LOST: ReadonlySet<FastdfsErrorCode> = new Set([
  'access_denied',
  'connect_failed',
  'connection_lost',
  'timeout',
]);

const FILE = { ...uploadFile, reply: namedFile(uploadFile.reply) };
const APPENDER = { ...uploadAppenderFile, reply: namedFile(uploadAppenderFile.reply) };

export async function upload(
  context: Context,
  kind: 'file' | 'appender',
  body: Body,
  options: UploadOptions,
): Promise<string> {
  const operation = kind === 'file' ? 'upload' : 'uploadAppender';
  const prepared = prepareBody(operation, body, options);
  const { group, extension = '' } = options;
  if (!isExtension(extension)) throw invalid(operation, `extension "${extension}"`);
  if (group !== undefined && !isGroupName(group)) throw invalid(operation, `group "${group}"`);
  const deadline = new Deadline(operation, options, prepared.size);
  const command = kind === 'file' ? FILE : APPENDER;
  const file = { context, deadline, command, body: prepared, extension, group };
  return context.run(deadline, () => store(file), isUnspent(prepared));
}

/** False once the body was read and cannot be read again. */
export function isUnspent({ payload }: PreparedBody): () => boolean {
  return () => Buffer.isBuffer(payload) || !payload.spent;
}

/** An upload in progress. */
interface NewFile {
  readonly context: Context;
  readonly deadline: Deadline;
  readonly command: PayloadCommand<UploadRequest, FileName>;
  readonly body: PreparedBody;
  readonly extension: string;
  readonly group: string | undefined;
}

type StoreAnswer = TrackerReply<StoreTarget>;

async function store(file: NewFile): Promise<string> {
  const { context, deadline, group = '' } = file;
  // The empty name stands for calls that let the tracker choose.
  const question = { name: group, time: 0, ask: () => askStore(file, file.group) };
  const lease = await context.storeAnswers.lease(question, deadline);
  try {
    const fileId = await storeAt(file, lease);
    context.storeAnswers.done(lease, true);
    return fileId;
  } finally {
    context.storeAnswers.done(lease, false);
  }
}

function askStore({ context, deadline }: NewFile, group: string | undefined): Promise<StoreAnswer> {
  return group === undefined
    ? context.trackers.ask(queryStore, undefined, deadline)
    : context.trackers.ask(queryStoreInGroup, { group }, deadline);
}

async function storeAt(file: NewFile, lease: Lease<StoreAnswer>): Promise<string> {
  const { context, deadline, command, body, extension } = file;
  const { caller } = context;
  let place: Place | undefined = placeOf(file, lease.answer);
  let places: AsyncGenerator<Place> | undefined;
  for (let attempt = 1; ; attempt++) {
    let answered = false;
    const { storage, storePathIndex }: Place = place;
    try {
      const request = { storePathIndex, size: body.size, extension };
      const onFailed = (failed: FailedExchange): void => {
        answered = failed.answered;
        context.reportOrphan(orphanOf(failed, deadline.operation, body.size));
      };
      const { payload } = body;
      const plan = { onFailed };
      const sent = caller.callWithPayload(storage, command, request, payload, deadline, plan);
      const stored = await sent;
      return formatFileId(stored);
    } catch (error) {
      context.storeAnswers.done(lease, false);
      deadline.throwIfEnded();
      const lost = error instanceof FastdfsError && LOST.has(error.code) && !answered;
      if (!lost || !isUnspent(body)() || attempt === MAX_STORAGES) throw error;
      places ??= otherPlaces(file, lease.answer.reply, storage);
      place = (await places.next()).value as Place | undefined;
      if (!place) throw error;
    }
  }
}

function placeOf({ context, deadline }: NewFile, { reply, tracker }: StoreAnswer): Place {
  return {
    storage: context.addresses.of(reply, tracker, deadline),
    storePathIndex: reply.storePathIndex,
  };
}

/**
 * Where else the file may go: the other storages of the group, then the tracker's next choice,
 * which may be in another group. None if no tracker knows.
 */
async function* otherPlaces(
  file: NewFile,
  first: StoreTarget,
  failed: Address,
): AsyncGenerator<Place> {
  const { context, deadline, group } = file;
  const tried = new Set([failed.text]);
  const request = { group: first.group };
  const listed = await context.trackers
    .ask(queryStoreInGroupAll, request, deadline)
    .catch(() => undefined);
  deadline.throwIfEnded();
  if (listed) {
    const { servers, storePathIndex } = listed.reply;
    for (const each of servers) {
      const storage = context.addresses.of(each, listed.tracker, deadline);
      if (!tried.has(storage.text)) yield { storage, storePathIndex };
      tried.add(storage.text);
    }
  }
  if (group !== undefined) return;
  const next = await askStore(file, undefined).catch(() => undefined);
  deadline.throwIfEnded();
  const place = next && placeOf(file, next);
  if (place && !tried.has(place.storage.text)) yield place;
}

/** The codec of a reply that must contain a valid file name. */
export function namedFile(codec: Codec<FileName>): Codec<FileName> {
  return {
    encode: codec.encode,
    decode(bytes) {
      const stored = codec.decode(bytes);
      if (!isGroupName(stored.group) || !parseFileName(stored.group, stored.name)) {
        throw new ProtocolError(`the storage named the file "${stored.group}/${stored.name}"`);
      }
      return stored;
    },
  };
}

/**
 * Slave files: stored beside their master, under its name and a prefix, so that the id follows from
 * the master's. A storage refuses a second upload with one prefix (17), so an uncertain upload is
 * not repeated.
 */

export interface SlaveOptions extends CallOptions, BodyOptions {
  /** Default: the master's. */
  readonly extension?: string | undefined;
}

const PREFIX = /^[A-Za-z0-9._-]+$/;
const SLAVE = { ...uploadSlaveFile, reply: namedFile(uploadSlaveFile.reply) };

export async function uploadSlave(
  context: Context,
  masterId: string,
  prefix: string,
  body: Body,
  options: SlaveOptions,
): Promise<string> {
  const operation = 'uploadSlave';
  const id = checkFileId(operation, masterId);
  const prepared = prepareBody(operation, body, options);
  if (!PREFIX.test(prefix) || prefix.length > SLAVE_PREFIX_BYTES) {
    throw invalid(operation, `prefix "${prefix}"`);
  }
  const { extension = storedExtension(id.name) } = options;
  if (!isExtension(extension)) throw invalid(operation, `extension "${extension}"`);
  const slaveId = expectedId(id.group, id.name, prefix, extension);
  const { size, payload } = prepared;
  const deadline = new Deadline(operation, options, size, masterId);
  const plan: CallPlan = {
    repeatable: false,
    onFailed: (failed) => context.reportOrphan(orphanOf(failed, operation, size, slaveId)),
  };
  const use = async (): Promise<string> => {
    const storage = await context.updateTarget(id, deadline);
    const request = { master: id.name, size, prefix, extension };
    const { caller } = context;
    const stored = await caller.callWithPayload(storage, SLAVE, request, payload, deadline, plan);
    return formatFileId(stored);
  };
  return context.run(deadline, use, isUnspent(prepared));
}

function expectedId(group: string, master: string, prefix: string, extension: string): string {
  const name = nameOrUndefined(master, prefix, extension);
  if (name === undefined || !parseFileName(group, name)) {
    throw invalid('uploadSlave', `no slave "${prefix}" of ${group}/${master} can be`);
  }
  return `${group}/${name}`;
}

function nameOrUndefined(master: string, prefix: string, extension: string): string | undefined {
  try {
    return slaveName(master, prefix, extension);
  } catch {
    return undefined;
  }
}
