import {
  CommandCode,
  decodeFields,
  downloadFile,
  type FileId,
  type FileName,
  fileKind,
  GROUP_BYTES,
  getMetadata,
  type LeasedFile,
  PASSED_ON_FLAG,
  parseFileName,
  QueryInfoFlag,
  queryFileInfo,
  type RemoteFileInfo,
  Status,
} from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import type { Context, ControlHandler, Handler, Reply } from '../net/handler.js';
import { answerDownload, type DownloadRange } from '../storage/handlers/download.js';
import type { StorageService } from '../storage/service.js';
import type { LeasedFiles } from './leased-files.js';
import type { PassOn } from './pass-on.js';

/**
 * Reads of files of other groups, to which trackers send clients because this storage has
 * the bytes: DOWNLOAD_FILE, QUERY_FILE_INFO and GET_METADATA under the file's own name and
 * group. While the home's lease runs they are answered here; otherwise they are passed on.
 * Requests for this storage's own group, and all that changes anything, are not touched.
 */

export interface ForwardedReads {
  readonly leased: LeasedFiles;
  readonly passOn: Pick<PassOn, 'ask' | 'stream'>;
  /** False for a group without metadata servers, which alone have files elsewhere. */
  readonly isKnownGroup: (group: string) => boolean;
}

/** Where the group is in the bodies of the requests. */
const GROUP_AT: ReadonlyMap<number, number> = new Map([
  [CommandCode.downloadFile, 16],
  [CommandCode.queryFileInfo, 0],
  [CommandCode.getMetadata, 0],
]);

/** The handlers, those of reads with what they answer for others. */
export function withForwardedReads<Session>(
  service: StorageService,
  reads: ForwardedReads,
  handlers: readonly Handler<Session>[],
): Handler<Session>[] {
  const own = Buffer.alloc(GROUP_BYTES);
  own.write(service.settings.group, 'latin1');
  return handlers.map((handler) => {
    const at = GROUP_AT.get(handler.code);
    if (at === undefined || handler.kind !== 'control') return handler;
    const isOwn = (body: Buffer): boolean =>
      body.length < at + GROUP_BYTES ||
      body.compare(own, 0, GROUP_BYTES, at, at + GROUP_BYTES) === 0;
    const ofOthers = readsOf(service, reads, handler);
    return {
      ...handler,
      handle: (body: Buffer, context: Context<Session>) =>
        isOwn(body) ? handler.handle(body, context) : ofOthers(body, context),
    };
  });
}

type Handle<Session> = ControlHandler<Session>['handle'];

function readsOf<Session>(
  service: StorageService,
  { leased, passOn, isKnownGroup }: ForwardedReads,
  handler: ControlHandler<Session>,
): Handle<Session> {
  const { identity, settings } = service;

  /** Answered here, or at home; status 22, as ever, for what is of no business here. */
  const answer = async (
    file: FileName,
    here: (leased: LeasedFile) => Promise<Reply>,
    atHome: () => Promise<Reply>,
    [body, context]: Parameters<Handle<Session>>,
  ): Promise<Reply> => {
    const known = leased.find(file.group, file.name);
    try {
      if (known) return await here(known);
    } catch (error) {
      // Its home has taken it back meanwhile.
      if (!(error instanceof Missing)) throw error;
    }
    const isPassedOn = (context.header.status & PASSED_ON_FLAG) !== 0;
    if (isPassedOn || !isKnownGroup(file.group)) return handler.handle(body, context);
    return atHome();
  };

  switch (handler.code) {
    case CommandCode.downloadFile:
      return (body, context) => {
        const request = downloadFile.request.decode(body);
        return answer(
          request,
          (known) => bytesOf(service, known, request),
          () => passOn.stream(downloadFile, request, settings.readChunkBytes),
          [body, context],
        );
      };
    case CommandCode.queryFileInfo:
      return (body, context) => {
        const request = queryFileInfo.request.decode(body);
        const flags = context.header.status & (QueryInfoFlag.noCrc | QueryInfoFlag.silent);
        const encoded = (info: RemoteFileInfo): Buffer =>
          queryFileInfo.reply.encode(info, identity.addressWidth);
        return answer(
          request,
          async (known) => encoded(infoOf(request, known, flags)),
          async () => encoded(await passOn.ask(queryFileInfo, request, flags)),
          [body, context],
        );
      };
    default:
      return (body, context) => {
        const request = getMetadata.request.decode(body);
        return answer(
          request,
          async ({ metadata }) => {
            if (!metadata) throw new StatusError(Status.notFound, `no metadata of ${request.name}`);
            return getMetadata.reply.encode(metadata);
          },
          async () => getMetadata.reply.encode(await passOn.ask(getMetadata, request, 0)),
          [body, context],
        );
      };
  }
}

/** The guest is not here any more. */
class Missing extends Error {}

/** What a leased file is called here. */
export function guestIdOf(group: string, { guest }: LeasedFile): FileId | undefined {
  return parseFileName(group, guest);
}

async function bytesOf(
  service: StorageService,
  known: LeasedFile,
  range: DownloadRange,
): Promise<Reply> {
  const id = guestIdOf(service.settings.group, known);
  if (!id) throw new Missing();
  try {
    return await answerDownload(service, id, range, known.size);
  } catch (error) {
    if (error instanceof StatusError && error.status === Status.notFound) throw new Missing();
    throw error;
  }
}

/** As its home has it. */
function infoOf(file: FileName, known: LeasedFile, flags: number): RemoteFileInfo {
  const id = parseFileName(file.group, file.name);
  if (!id) throw new StatusError(Status.notFound, file.name);
  const kind = fileKind(id);
  const isNamed = kind !== 'appender' && kind !== 'slave';
  const computed = (flags & QueryInfoFlag.noCrc) !== 0 ? 0 : known.crc32;
  return {
    size: known.size,
    mtimeSeconds: known.mtimeSeconds,
    crc32: isNamed ? decodeFields(id.base).crc32 : computed,
    sourceAddress: known.sourceAddress,
  };
}
