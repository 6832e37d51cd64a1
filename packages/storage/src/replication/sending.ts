import {
  decodeFields,
  type FileId,
  fileKind,
  type PayloadCommand,
  parseSliceId,
  QueryInfoFlag,
  queryFileInfo,
  type RemoteFileInfo,
  Status,
  type SyncFile,
  syncAppendFile,
  syncCreateFile,
  syncDeleteFile,
  syncModifyFile,
  syncRenameFile,
  syncTruncateFile,
  syncUpdateFile,
} from '@stevedore/protocol';
import { type Peer, StatusError } from '@stevedore/wire';
import { CHUNK_BYTES, crcOf, readInto } from '../files/file-backend.js';
import type { OpenFile } from '../files/open-files.js';
import { DELETED_SUFFIX, METADATA_SUFFIX } from '../layout.js';
import { ifThere } from '../refusals.js';
import { hasFile, type StorageService } from '../service.js';
import type { Position } from './binlog.js';
import { type LogRecord, numbersOf, parseLoggedName } from './log-record.js';

/**
 * Sends one change to another member. It sends the file as it is now: nothing if the file is
 * gone or the change never happened, and the whole file if the change does not fit the
 * member's copy. So sending a record twice, or after later ones, does no harm.
 */

/** How far the member has the changing files that a session has sent. */
export class SentFiles {
  readonly #until = new Map<string, Position>();

  /** The member has all changes of the file before this position; -1: unknown. */
  until(name: string): Position {
    return this.#until.get(name) ?? -1;
  }

  note(name: string, until: Position): void {
    if (this.#until.size >= MAX_SENT_FILES) this.#until.clear();
    this.#until.set(name, until);
  }
}

/** What a session knows about a record. */
export interface About {
  /** Where it ends in the binlog. */
  readonly end: Position;
  /** The member may have it already. */
  readonly again: boolean;
  readonly sent: SentFiles;
  /**
   * For a C storage: it has had all files created before then, unix seconds; 0 if that is unknown.
   */
  readonly hadUntilSeconds: number;
}

/**
 * A C storage lacks an appender that it has had, or has a later state of it: clients may have deleted
 * or changed it there, while this storage was away, and that has yet to come. If the file is sent
 * again meanwhile, the C storage never sends its own deletion or change.
 */
export class ChangedThere extends Error {
  override readonly name = 'ChangedThere';
}

/** Names kept in memory for one member. */
const MAX_SENT_FILES = 65_536;

/** Before a larger file is sent again, ask the member whether it has it. */
const ASK_FIRST_BYTES = 256 * 1024;

export class Sending {
  readonly #service: StorageService;
  readonly #group: string;
  readonly #isInCharge: (id: FileId) => boolean;

  /** `isInCharge`: this storage is the one that changes the file. */
  constructor(service: StorageService, isInCharge: (id: FileId) => boolean) {
    this.#service = service;
    this.#isInCharge = isInCharge;
    this.#group = service.settings.group;
  }

  /** The file's name, or its trunk's: records with the same key are sent one after another. */
  keyOf(record: LogRecord): string | undefined {
    if (record.operation === 'L' || record.operation === 'R') return undefined;
    const name = this.#parse(record.name);
    return name && (parseSliceId(name.id)?.trunk.name ?? name.id.name);
  }

  /** Throws StatusError for what the member refuses. */
  async send(record: LogRecord, peer: Peer, about: About): Promise<void> {
    const name = this.#parse(record.name);
    // Damage, or a store path that this storage no longer has.
    if (!name) return;
    const { id, part } = name;
    if (part === 'metadata') return this.#metadata(id, record, peer);
    if (part === 'deleted slices') return this.#deletedSlices(id, record, peer);
    switch (record.operation) {
      case 'C':
        return this.#created(id, record, peer, about);
      case 'U':
        return this.#bringUpToDate(id, record, peer, about);
      case 'A':
      case 'M':
      case 'T':
        return this.#changed(id, record, peer, about);
      case 'D':
        return this.#deleted(id, record, peer, about);
      case 'L':
        // Another member's link, as a copy: its target never changes.
        return this.#created(id, record, peer, about);
      case 'R':
        return this.#renamed(id, record, peer);
    }
  }

  #created(id: FileId, record: LogRecord, peer: Peer, about: About): Promise<void> {
    const { again, sent: files } = about;
    const until = this.#service.replication.log.end;
    return this.#withFile(id, async (opened) => {
      if (again && opened.stat.size > ASK_FIRST_BYTES && (await this.#hasSame(id, opened, peer))) {
        return;
      }
      const sent = await this.#sendWhole(syncCreateFile, id, record, opened, peer);
      // The member may have an earlier slave of the same name, or an appender that lacks
      // changes.
      const kind = fileKind(id);
      if (sent === Status.exists && (kind === 'slave' || (again && kind === 'appender'))) {
        await this.#bringUpToDate(id, record, peer, about);
      }
      if (sent === Status.ok && kind === 'appender') files.note(id.name, until);
    });
  }

  /**
   * Sends a change of a file. It sends the change alone only if this session knows what the
   * member has, or the record is new; otherwise it compares the files first.
   */
  async #changed(id: FileId, record: LogRecord, peer: Peer, about: About): Promise<void> {
    // After a replay, a change by another source looks like an own one; only its source sends it.
    if (!this.#isInCharge(id)) return;
    const until = about.sent.until(id.name);
    if (until >= about.end) return;
    const isKnown = until >= 0 || !about.again;
    if (isKnown && (await this.#part(id, record, peer))) return;
    await this.#bringUpToDate(id, record, peer, about);
  }

  /** True if the change fitted the member's copy, or the file is gone. */
  async #part(id: FileId, record: LogRecord, peer: Peer): Promise<boolean> {
    const [first, second] = numbersOf(record) ?? [0, 0];
    const change = this.#change(id, record);
    const fitted = await this.#withFile(id, (opened) => {
      if (record.operation === 'T') {
        return isTaken(peer.ask(syncTruncateFile, { ...change, oldSize: first, newSize: second }));
      }
      if (opened.stat.size < first + second) return false;
      const command = record.operation === 'A' ? syncAppendFile : syncModifyFile;
      const request = { ...change, offset: first, size: second };
      return isTaken(this.#send(command, request, opened, first, peer));
    });
    return fitted ?? true;
  }

  /** Makes the member's copy equal to the file here, sending only what it lacks if possible. */
  #bringUpToDate(id: FileId, record: LogRecord, peer: Peer, about: About): Promise<void> {
    const until = this.#service.replication.log.end;
    return this.#withFile(id, async (opened) => {
      await this.#sendMissing(id, record, opened, peer, about.hadUntilSeconds);
      about.sent.note(id.name, until);
    });
  }

  async #sendMissing(
    id: FileId,
    record: LogRecord,
    opened: OpenFile,
    peer: Peer,
    hadUntilSeconds: number,
  ): Promise<void> {
    // The name of a normal file determines its content.
    if (fileKind(id) === 'normal') {
      const there = await this.#info(id, peer, QueryInfoFlag.noCrc);
      if (there?.size === opened.stat.size) return;
    } else {
      const there = await this.#info(id, peer, 0);
      if (there && (await this.#isSame(there, opened))) return;
      const isOld = decodeFields(id.base).createdAtSeconds < hadUntilSeconds;
      const isLater = !there || there.mtimeSeconds > opened.stat.mtimeSeconds;
      if (fileKind(id) === 'appender' && isOld && isLater) throw new ChangedThere(id.name);
      if (there && (await this.#append(id, record, opened, there, peer))) return;
    }
    // The member keeps a newer one.
    await this.#sendWhole(syncUpdateFile, id, record, opened, peer);
  }

  /** Sends what follows the member's last byte; false if its copy is no prefix of the file. */
  async #append(
    id: FileId,
    record: LogRecord,
    opened: OpenFile,
    there: RemoteFileInfo,
    peer: Peer,
  ): Promise<boolean> {
    const { size, mtimeSeconds } = opened.stat;
    if (there.size >= size) return false;
    if (there.crc32 !== (await crcOf(opened.file, there.size))) return false;
    const change = { ...this.#change(id, record), atSeconds: mtimeSeconds };
    const request = { ...change, offset: there.size, size: size - there.size };
    return isTaken(this.#send(syncAppendFile, request, opened, there.size, peer));
  }

  /** Sends the whole file, with its modification time, or the time of a link's record. */
  #sendWhole(
    command: PayloadCommand<SyncFile, undefined>,
    id: FileId,
    record: LogRecord,
    opened: OpenFile,
    peer: Peer,
  ): Promise<number> {
    const { size, mtimeSeconds } = opened.stat;
    const atSeconds = record.operation === 'L' ? record.atSeconds : mtimeSeconds;
    const request = { ...this.#change(id, record), atSeconds, size };
    return accepted(this.#send(command, request, opened, 0, peer), Status.exists);
  }

  async #deleted(id: FileId, record: LogRecord, peer: Peer, about: About): Promise<void> {
    const isHere = parseSliceId(id)
      ? await hasFile(this.#service, id)
      : await this.#settled(id, (path) => this.#service.backend.exists(path));
    if (!isHere) {
      await accepted(peer.ask(syncDeleteFile, this.#change(id, record)), Status.notFound);
    } else if (fileKind(id) === 'slave' && !parseSliceId(id)) {
      // Deleted and stored again: the member may have the old one.
      await this.#bringUpToDate(id, record, peer, about);
    }
  }

  async #renamed(id: FileId, record: LogRecord, peer: Peer): Promise<void> {
    const old = this.#parse(record.extra)?.id;
    if (old) await this.#settled(old, async () => {});
    await this.#withFile(id, async (opened) => {
      const there = old && (await this.#info(old, peer, 0));
      if (there && (await this.#isSame(there, opened))) {
        const request = { ...this.#change(id, record), source: record.extra };
        const renaming = peer.ask(syncRenameFile, request);
        const answer = await accepted(renaming, Status.exists, Status.notFound);
        if (answer !== Status.notFound) return;
      }
      // The member has an older state of the old file, or none.
      await this.#sendWhole(syncCreateFile, id, record, opened, peer);
      if (old) await accepted(peer.ask(syncDeleteFile, this.#change(old, record)), Status.notFound);
    });
  }

  /** Sends the metadata as a whole, or its removal. */
  async #metadata(id: FileId, record: LogRecord, peer: Peer): Promise<void> {
    // Metadata without a file is left over from an interrupted deletion.
    const isHere = await this.#settled(id, (path) => this.#service.backend.exists(path));
    if (!isHere) return;
    const found = await this.#service.metadata.toSend(this.#service.store.pathOf(id));
    const change = { ...this.#change(id, record), name: id.name + METADATA_SUFFIX };
    if (!found) {
      await accepted(peer.ask(syncDeleteFile, change), Status.notFound);
      return;
    }
    const { text, mtimeSeconds } = found;
    const request = { ...change, atSeconds: mtimeSeconds, size: text.length };
    const sent = peer.send(syncUpdateFile, request, async (at) => text.subarray(at));
    await accepted(sent, Status.exists);
  }

  async #deletedSlices(id: FileId, record: LogRecord, peer: Peer): Promise<void> {
    const list = await this.#service.slices.listToSend(this.#service.store.pathOf(id));
    if (!list) return;
    const name = id.name + DELETED_SUFFIX;
    const request = { ...this.#change(id, record), name, size: list.length };
    await peer.send(syncUpdateFile, request, async (at) => list.subarray(at));
  }

  #parse(name: string) {
    return parseLoggedName(this.#group, name, this.#service.storePaths.all.length);
  }

  #change(id: FileId, { atSeconds }: LogRecord) {
    return { atSeconds, group: this.#group, name: id.name };
  }

  /** Opens the file between two changes and runs the action; undefined if there is none. */
  async #withFile<Result>(
    id: FileId,
    action: (opened: OpenFile) => Promise<Result> | Result,
  ): Promise<Result | undefined> {
    const { store, changing } = this.#service;
    const opened = await ifThere(changing.acquire(store.pathOf(id)));
    try {
      return opened && (await action(opened));
    } finally {
      opened?.release();
    }
  }

  /** Runs the action while no change of the file is in flight. */
  #settled<Result>(id: FileId, action: (path: string) => Promise<Result>): Promise<Result> {
    const path = this.#service.store.pathOf(id);
    return this.#service.locks.run(path, () => action(path));
  }

  #send<Request extends { readonly size: number }>(
    command: PayloadCommand<Request, undefined>,
    request: Request,
    { file }: OpenFile,
    from: number,
    peer: Peer,
  ): Promise<undefined> {
    const { replication } = this.#service;
    return peer.send(command, request, async (at) => {
      const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, request.size - at));
      await readInto(chunk, file, from + at);
      replication.sentBytes += chunk.length;
      return chunk;
    });
  }

  async #hasSame(id: FileId, opened: OpenFile, peer: Peer): Promise<boolean> {
    // The name of a normal file determines its content.
    const flags = fileKind(id) === 'normal' ? QueryInfoFlag.noCrc : 0;
    const there = await this.#info(id, peer, flags);
    if (there?.size !== opened.stat.size) return false;
    return flags !== 0 || this.#isSame(there, opened);
  }

  async #isSame(there: RemoteFileInfo, opened: OpenFile): Promise<boolean> {
    if (there.size !== opened.stat.size) return false;
    return there.crc32 === (await crcOf(opened.file, opened.stat.size));
  }

  #info(id: FileId, peer: Peer, flags: number): Promise<RemoteFileInfo | undefined> {
    const request = { group: this.#group, name: id.name };
    return ifThere(peer.ask(queryFileInfo, request, flags));
  }
}

/** True if the member took the change, false if it does not fit its copy. */
async function isTaken(answer: Promise<undefined>): Promise<boolean> {
  return (await accepted(answer, Status.exists, Status.notFound)) === Status.ok;
}

/** The answer's status if it is 0 or one of `statuses`; throws any other. */
async function accepted(answer: Promise<undefined>, ...statuses: number[]): Promise<number> {
  try {
    await answer;
    return Status.ok;
  } catch (error) {
    if (error instanceof StatusError && statuses.includes(error.status)) return error.status;
    throw error;
  }
}
