import {
  type FileId,
  fileKind,
  type PayloadCommand,
  parseSliceId,
  QueryInfoFlag,
  queryFileInfo,
  type RemoteFileInfo,
  Status,
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
import { StatusError } from '../errors.js';
import type { FrameClient } from '../net/frame-client.js';
import { crcOf } from '../storage/handlers/appender.js';
import { DELETED_SUFFIX, METADATA_SUFFIX } from '../storage/layout.js';
import type { OpenFile } from '../storage/open-files.js';
import type { StorageService } from '../storage/service.js';
import { parseLoggedName } from './log-name.js';
import { type LogRecord, numbersOf } from './log-record.js';

/**
 * Sends one change to another member. What is sent is the file as it is now, not as
 * it was: a record whose file has gone, or that was not carried out, sends nothing,
 * and one that does not fit what the member has sends the whole file. So it does no
 * harm to send a record twice, or after later ones.
 */

/** Before a larger file is sent again, the member is asked whether it has it. */
const ASK_FIRST_BYTES = 16 * 1024;

export class Sending {
  readonly #service: StorageService;
  readonly #group: string;

  constructor(service: StorageService) {
    this.#service = service;
    this.#group = service.settings.group;
  }

  /** What a change is about, so that changes of one file are sent one after the other. */
  keyOf(record: LogRecord): string | undefined {
    if (record.operation === 'L' || record.operation === 'R') return undefined;
    const name = this.#parse(record.name);
    return name && (parseSliceId(name.id)?.trunk.name ?? name.id.name);
  }

  /** `again`: the member may have it already. Throws StatusError for what it refuses. */
  async send(record: LogRecord, peer: FrameClient, again: boolean): Promise<void> {
    const name = this.#parse(record.name);
    // Damage, or a store path that this storage does not have any more.
    if (!name) return;
    const { id, part } = name;
    if (part === 'metadata') return this.#metadata(id, record, peer);
    if (part === 'deleted slices') return this.#deletedSlices(id, record, peer);
    switch (record.operation) {
      case 'C':
        return this.#created(id, record, peer, again);
      case 'U':
        return this.#wholeUnlessSame(id, record, peer);
      case 'A':
        return this.#part(id, record, peer, syncAppendFile);
      case 'M':
        return this.#part(id, record, peer, syncModifyFile);
      case 'T':
        return this.#truncated(id, record, peer);
      case 'D':
        return this.#deleted(id, record, peer);
      case 'L':
        return this.#linked(id, record, peer);
      case 'R':
        return this.#renamed(id, record, peer);
    }
  }

  async #created(id: FileId, record: LogRecord, peer: FrameClient, again: boolean): Promise<void> {
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
      // A slave can be another one than the one that was stored under its name before.
      if (sent === Status.exists && fileKind(id) === 'slave') {
        const there = await this.#info(id, peer, 0);
        const same = there === undefined || (await this.#isSame(there, opened));
        if (!same) await this.#send(syncUpdateFile, request, opened, 0, peer);
      }
    } finally {
      opened.release();
    }
  }

  /** The file as it is, with the time of its last change. */
  async #whole(
    id: FileId,
    record: LogRecord,
    peer: FrameClient,
    command: typeof syncUpdateFile,
  ): Promise<void> {
    const opened = await this.#open(id);
    if (!opened) return;
    try {
      const request = this.#wholeFile(id, record, opened);
      await accepted(this.#send(command, request, opened, 0, peer), Status.exists);
    } finally {
      opened.release();
    }
  }

  async #wholeUnlessSame(id: FileId, record: LogRecord, peer: FrameClient): Promise<void> {
    const opened = await this.#open(id);
    if (!opened) return;
    const isSame = await this.#hasSame(id, opened, peer).finally(() => opened.release());
    if (!isSame) await this.#whole(id, record, peer, syncUpdateFile);
  }

  async #part(
    id: FileId,
    record: LogRecord,
    peer: FrameClient,
    command: PayloadCommand<SyncPart, undefined>,
  ): Promise<void> {
    const [offset, size] = numbersOf(record) ?? [0, 0];
    const opened = await this.#open(id);
    if (!opened) return;
    let answer: number = Status.notFound;
    try {
      if (opened.stat.size >= offset + size) {
        const request = { ...this.#change(id, record), offset, size };
        const sent = this.#send(command, request, opened, offset, peer);
        answer = await accepted(sent, Status.exists, Status.notFound);
      }
    } finally {
      opened.release();
    }
    if (answer === Status.notFound) await this.#whole(id, record, peer, syncUpdateFile);
  }

  async #truncated(id: FileId, record: LogRecord, peer: FrameClient): Promise<void> {
    const [oldSize, newSize] = numbersOf(record) ?? [0, 0];
    const opened = await this.#open(id);
    if (!opened) return;
    opened.release();
    const request = { ...this.#change(id, record), oldSize, newSize };
    const answer = await accepted(
      peer.ask(syncTruncateFile, request),
      Status.exists,
      Status.notFound,
    );
    if (answer === Status.ok) return;
    // Another size than this storage had: unless it is the present one, it is wrong.
    const there = await this.#info(id, peer, QueryInfoFlag.noCrc);
    if (there?.size !== opened.stat.size) await this.#whole(id, record, peer, syncUpdateFile);
  }

  async #deleted(id: FileId, record: LogRecord, peer: FrameClient): Promise<void> {
    const isHere = parseSliceId(id)
      ? await this.#service.has(id)
      : await this.#settled(id, (path) => this.#service.settings.disk.exists(path));
    if (!isHere) {
      await accepted(peer.ask(syncDeleteFile, this.#change(id, record)), Status.notFound);
    } else if (fileKind(id) === 'slave' && !parseSliceId(id)) {
      // Deleted and stored again: what the member has may be the old one.
      await this.#whole(id, record, peer, syncUpdateFile);
    }
  }

  async #linked(id: FileId, record: LogRecord, peer: FrameClient): Promise<void> {
    const { disk } = this.#service.settings;
    if (!(await this.#settled(id, (path) => disk.exists(path)))) return;
    await peer.ask(syncCreateLink, { ...this.#change(id, record), source: record.extra });
  }

  async #renamed(id: FileId, record: LogRecord, peer: FrameClient): Promise<void> {
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
      // The member has the old file as it once was, or not at all.
      const request = this.#wholeFile(id, record, opened);
      await accepted(this.#send(syncCreateFile, request, opened, 0, peer), Status.exists);
      if (old) await accepted(peer.ask(syncDeleteFile, this.#change(old, record)), Status.notFound);
    } finally {
      opened.release();
    }
  }

  async #metadata(id: FileId, record: LogRecord, peer: FrameClient): Promise<void> {
    const found = await this.#service.metadata.toSend(this.#service.store.pathOf(id));
    const change = this.#change(id, record);
    const name = id.name + METADATA_SUFFIX;
    if (!found) {
      await accepted(peer.ask(syncDeleteFile, { ...change, name }), Status.notFound);
      return;
    }
    const { metadata, mtimeSeconds } = found;
    const request = { ...change, name, atSeconds: mtimeSeconds, size: metadata.length };
    await accepted(
      peer.send(syncUpdateFile, request, async (at) => metadata.subarray(at)),
      Status.exists,
    );
  }

  async #deletedSlices(id: FileId, record: LogRecord, peer: FrameClient): Promise<void> {
    const list = await this.#service.slices.listToSend(this.#service.store.pathOf(id));
    if (!list) return;
    const name = id.name + DELETED_SUFFIX;
    const request = { ...this.#change(id, record), name, size: list.length };
    await peer.send(syncUpdateFile, request, async (at) => list.subarray(at));
  }

  #parse(name: string) {
    return parseLoggedName(this.#group, name, this.#service.storePaths.length);
  }

  #change(id: FileId, { atSeconds }: LogRecord) {
    return { atSeconds, group: this.#group, name: id.name };
  }

  /** The file as it is, with the time of its last change. */
  #wholeFile(id: FileId, record: LogRecord, { stat: { size, mtimeSeconds } }: OpenFile) {
    return { ...this.#change(id, record), atSeconds: mtimeSeconds, size };
  }

  /** The file between two changes, or undefined; waits for a change of `waitFor` as well. */
  async #open(id: FileId, waitFor?: string): Promise<OpenFile | undefined> {
    const { store, changing } = this.#service;
    const old = waitFor === undefined ? undefined : this.#parse(waitFor)?.id;
    if (old) await this.#settled(old, async () => {});
    try {
      return await changing.acquire(store.pathOf(id));
    } catch (error) {
      if (error instanceof StatusError && error.status === Status.notFound) return undefined;
      throw error;
    }
  }

  /** Runs the action when no change of the file is under way. */
  #settled<Result>(id: FileId, action: (path: string) => Promise<Result>): Promise<Result> {
    const path = this.#service.store.pathOf(id);
    return this.#service.locks.run(path, () => action(path));
  }

  #send<Request extends { readonly size: number }>(
    command: PayloadCommand<Request, undefined>,
    request: Request,
    { file }: OpenFile,
    from: number,
    peer: FrameClient,
  ): Promise<undefined> {
    const { readChunkBytes } = this.#service.settings;
    const { replication } = this.#service;
    return peer.send(command, request, async (at) => {
      const chunk = Buffer.allocUnsafe(Math.min(readChunkBytes, request.size - at));
      const read = await file.readAt(chunk, from + at);
      if (read < chunk.length) throw new Error(`a file is ${chunk.length - read} bytes short`);
      replication.sentBytes += read;
      return chunk;
    });
  }

  async #hasSame(id: FileId, opened: OpenFile, peer: FrameClient): Promise<boolean> {
    // The name of a normal file tells its content.
    const flags = fileKind(id) === 'normal' ? QueryInfoFlag.noCrc : 0;
    const there = await this.#info(id, peer, flags);
    if (there?.size !== opened.stat.size) return false;
    return flags !== 0 || this.#isSame(there, opened);
  }

  async #isSame(there: RemoteFileInfo, opened: OpenFile): Promise<boolean> {
    if (there.size !== opened.stat.size) return false;
    return there.crc32 === (await crcOf(opened, this.#service.settings.readChunkBytes));
  }

  async #info(id: FileId, peer: FrameClient, flags: number): Promise<RemoteFileInfo | undefined> {
    try {
      const request = { group: this.#group, name: id.name };
      return await peer.ask(queryFileInfo, request, flags);
    } catch (error) {
      if (error instanceof StatusError && error.status === Status.notFound) return undefined;
      throw error;
    }
  }
}

/** The answer's status, if it is 0 or one of those; any other is thrown. */
async function accepted(answer: Promise<undefined>, ...statuses: number[]): Promise<number> {
  try {
    await answer;
    return Status.ok;
  } catch (error) {
    if (error instanceof StatusError && statuses.includes(error.status)) return error.status;
    throw error;
  }
}
