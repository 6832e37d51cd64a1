import {
  ALREADY_THERE,
  ASKS_IF_OURS,
  type Command,
  type FileId,
  type PayloadCommand,
  ProtocolError,
  reportServerId,
  type SyncFile,
  type SyncPair,
  type SyncPart,
  syncAppendFile,
  syncCreateFile,
  syncCreateLink,
  syncDeleteFile,
  syncModifyFile,
  syncRenameFile,
  syncTruncateFile,
  syncUpdateFile,
} from '@stevedore/protocol';
import { type Context, control, type Handler, type Payload, receiving } from '@stevedore/wire';
import { invalid } from '../refusals.js';
import type { StorageService } from '../service.js';
import { type LoggedName, parseLoggedName } from './log-record.js';
import { admit, type StorageSession } from './members.js';
import { Receiver } from './receiver.js';

/**
 * Handles what other members of the group send: their identity and their changes. Nobody
 * else is admitted, and no name leads outside the store paths.
 */
export function receivingHandlers(service: StorageService): Handler<StorageSession>[] {
  const { replication, settings } = service;
  const { members, synced } = replication;
  const receiver = new Receiver(service);

  /** The file that a change is about; status 13 for a stranger, 22 for a malformed name. */
  const named = async (
    session: StorageSession,
    { group, name }: { readonly group: string; readonly name: string },
  ): Promise<LoggedName> => {
    await admit(members, session, session.peer === '' ? undefined : session.peer);
    if (group !== settings.group) throw invalid(`not group ${group}`);
    const parsed = parseLoggedName(group, name, service.storePaths.all.length);
    if (!parsed) throw invalid('a malformed name');
    return parsed;
  };

  /** As `named`, but only the file itself, not its companions; else status 22. */
  const file = async (
    session: StorageSession,
    request: { readonly group: string; readonly name: string },
  ): Promise<FileId> => {
    const { id, part } = await named(session, request);
    if (part !== 'file') throw invalid('not the name of a file');
    return id;
  };

  /** Advances the member's sync timestamp: its own records arrive in order. */
  const received = (session: StorageSession, id: FileId, atSeconds: number): undefined => {
    if (replication.isSource(session.peer, id)) synced.set(session.peer, atSeconds);
    replication.lastReceivedSeconds = Math.max(replication.lastReceivedSeconds, atSeconds);
    return undefined;
  };

  const wholeFile = (command: PayloadCommand<SyncFile, undefined>): Handler<StorageSession> => ({
    kind: 'payload',
    code: command.code,
    minHeadBytes: command.minHeadBytes,
    headBytes: (prefix) => command.headBytes(prefix),
    async handle(head, payload, { header, session }) {
      const request = command.request.decode(head);
      const name = await named(session, request);
      if (header.status === ALREADY_THERE) {
        if (payload.remaining > 0) throw new ProtocolError('content that is there already');
        await receiver.alreadyThere(name);
      } else {
        if (payload.remaining !== request.size) {
          throw new ProtocolError(`${request.size} bytes announced, ${payload.remaining} brought`);
        }
        const replaces = command === syncUpdateFile;
        await receiver.file(name, request.atSeconds, payload, replaces, session);
      }
      return command.reply.encode(received(session, name.id, request.atSeconds));
    },
  });

  const part = (
    command: PayloadCommand<SyncPart, undefined>,
    apply: (id: FileId, request: SyncPart, payload: Payload) => Promise<void>,
  ): Handler<StorageSession> =>
    receiving(command, async (request, payload, { session }: Context<StorageSession>) => {
      const id = await file(session, request);
      await apply(id, request, payload);
      return received(session, id, request.atSeconds);
    });

  const change = <Request extends Pick<SyncPair, 'group' | 'name' | 'atSeconds'>>(
    command: Command<Request, undefined>,
    apply: (id: FileId, request: Request, session: StorageSession) => Promise<void>,
  ): Handler<StorageSession> =>
    control(command, async (request, { session }: Context<StorageSession>) => {
      const id = await file(session, request);
      await apply(id, request, session);
      return received(session, id, request.atSeconds);
    });

  return [
    control(reportServerId, async (id, { header, session }: Context<StorageSession>) => {
      session.peer = await admit(members, session, id);
      return header.status === ASKS_IF_OURS;
    }),
    wholeFile(syncCreateFile),
    wholeFile(syncUpdateFile),
    part(syncAppendFile, (...change) => receiver.append(...change)),
    part(syncModifyFile, (...change) => receiver.modify(...change)),
    change(syncTruncateFile, (id, request) => receiver.truncate(id, request)),
    control(syncDeleteFile, async (request, { session }: Context<StorageSession>) => {
      const name = await named(session, request);
      try {
        await receiver.remove(name, request.atSeconds, session);
      } finally {
        received(session, name.id, request.atSeconds);
      }
      return undefined;
    }),
    change(syncCreateLink, async (id, { group, source, atSeconds }, session) =>
      receiver.link(id, await file(session, { group, name: source }), atSeconds),
    ),
    change(syncRenameFile, async (id, { group, source, atSeconds }, session) =>
      receiver.rename(id, await file(session, { group, name: source }), atSeconds),
    ),
  ];
}
