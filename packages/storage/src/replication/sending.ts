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
  syncAppendFile,
  syncCreateFile,
  syncCreateLink,
  syncDeleteFile,
  syncModifyFile,
  syncRenameFile,
  syncTruncateFile,
  syncUpdateFile,
} from '@stevedore/protocol';
import { type Peer, StatusError } from '@stevedore/wire';
import { ifThere, readInto } from '../files/file-backend.js';
import type { OpenFile } from '../files/open-files.js';
import { crcOf } from '../handlers/appender.js';
import { DELETED_SUFFIX, METADATA_SUFFIX } from '../layout.js';
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
  /** True if the member takes links. */
  readonly takesLinks: boolean;
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
        // Sending a copy is fine: the target never changes.
        if (!about.takesLinks) return this.#created(id, record, peer, about);
        return this.#linked(id, record, peer);
      case 'R':
        return this.#renamed(id, record, peer);
    }
  }

  async #created(id: FileId, record: LogRecord, peer: Peer, about: About): Promise<void> {
    const { again, sent: files } = about;
    const until = this.#service.replication.log.end;
    const opened = await this.#open(id);
    if (!opened) return;
    try {
      if (again && opened.stat.size > ASK_FIRST_BYTES && (await this.#hasSame(id, opened, peer))) {
        return;
      }
      const request = this.#wholeFile(id, record, opened);
      const sent = await accepted(
        this.#send(syncCreateFile, request, opened, 0, peer),
        Status.exists,
      );
      // The member may have an earlier slave of the same name, or an appender that lacks
      // changes.
      const kind = fileKind(id);
      if (sent === Status.exists && (kind === 'slave' || (again && kind === 'appender'))) {
        await this.#bringUpToDate(id, record, peer, about);
      }
      if (sent === Status.ok && kind === 'appender') files.note(id.name, until);
    } finally {
      opened.release();
    }
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
    const opened = await this.#open(id);
    if (!opened) return true;
    const statuses = [Status.exists, Status.notFound];
    try {
      if (record.operation === 'T') {
        const request = { ...this.#change(id, record), oldSize: first, newSize: second };
        return (await accepted(peer.ask(syncTruncateFile, request), ...statuses)) === Status.ok;
      }
      if (opened.stat.size < first + second) return false;
      const request = { ...this.#change(id, record), offset: first, size: second };
      const command = record.operation === 'A' ? syncAppendFile : syncModifyFile;
      const sent = this.#send(command, request, opened, first, peer);
      return (await accepted(sent, ...statuses)) === Status.ok;
    } finally {
      opened.release();
    }
  }

  /** Makes the member's copy equal to the file here, sending only what it lacks if possible. */
  async #bringUpToDate(id: FileId, record: LogRecord, peer: Peer, about: About): Promise<void> {
    const until = this.#service.replication.log.end;
    const opened = await this.#open(id);
    if (!opened) return;
    try {
      await this.#sendMissing(id, record, opened, peer, about.hadUntilSeconds);
      about.sent.note(id.name, until);
    } finally {
      opened.release();
    }
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
    await this.#replace(id, record, opened, peer);
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
    const { readChunkBytes } = this.#service.settings;
    if (there.size >= size) return false;
    if (there.crc32 !== (await crcOf(opened, readChunkBytes, there.size))) return false;
    const change = { ...this.#change(id, record), atSeconds: mtimeSeconds };
    const request = { ...change, offset: there.size, size: size - there.size };
    const sent = this.#send(syncAppendFile, request, opened, there.size, peer);
    return (await accepted(sent, Status.exists, Status.notFound)) === Status.ok;
  }

  /** Sends the whole file; the member keeps a newer one. */
  async #replace(id: FileId, record: LogRecord, opened: OpenFile, peer: Peer): Promise<void> {
    const request = this.#wholeFile(id, record, opened);
    await accepted(this.#send(syncUpdateFile, request, opened, 0, peer), Status.exists);
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

  async #linked(id: FileId, record: LogRecord, peer: Peer): Promise<void> {
    const { backend } = this.#service;
    if (!(await this.#settled(id, (path) => backend.exists(path)))) return;
    await peer.ask(syncCreateLink, { ...this.#change(id, record), source: record.extra });
  }

  async #renamed(id: FileId, record: LogRecord, peer: Peer): Promise<void> {
    const old = this.#parse(record.extra)?.id;
    const opened = await this.#open(id, record.extra);
    if (!opened) return;
    try {
      const there = old && (await this.#info(old, peer, 0));
      if (there && (await this.#isSame(there, opened))) {
        const request = { ...this.#change(id, record), source: record.extra };
        const renaming = peer.ask(syncRenameFile, request);
        const answer = await accepted(renaming, Status.exists, Status.notFound);
        if (answer !== Status.notFound) return;
      }
      // The member has an older state of the old file, or none.
      const request = this.#wholeFile(id, record, opened);
      await accepted(this.#send(syncCreateFile, request, opened, 0, peer), Status.exists);
      if (old) await accepted(peer.ask(syncDeleteFile, this.#change(old, record)), Status.notFound);
    } finally {
      opened.release();
    }
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

  /** Describes the whole file, with its modification time, or the time of a link's record. */
  #wholeFile(id: FileId, record: LogRecord, { stat: { size, mtimeSeconds } }: OpenFile) {
    const atSeconds = record.operation === 'L' ? record.atSeconds : mtimeSeconds;
    return { ...this.#change(id, record), atSeconds, size };
  }

  /** Opens the file between two changes; waits for changes of `waitFor` too. */
  async #open(id: FileId, waitFor?: string): Promise<OpenFile | undefined> {
    const { store, changing } = this.#service;
    const old = waitFor === undefined ? undefined : this.#parse(waitFor)?.id;
    if (old) await this.#settled(old, async () => {});
    return ifThere(changing.acquire(store.pathOf(id)));
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
    const { readChunkBytes } = this.#service.settings;
    const { replication } = this.#service;
    return peer.send(command, request, async (at) => {
      const chunk = Buffer.allocUnsafe(Math.min(readChunkBytes, request.size - at));
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
    return there.crc32 === (await crcOf(opened, this.#service.settings.readChunkBytes));
  }

  #info(id: FileId, peer: Peer, flags: number): Promise<RemoteFileInfo | undefined> {
    const request = { group: this.#group, name: id.name };
    return ifThere(peer.ask(queryFileInfo, request, flags));
  }
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
