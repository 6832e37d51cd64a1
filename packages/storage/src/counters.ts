import { types } from 'node:util';
import {
  type CreatedNow,
  type Disk,
  type DiskFile,
  decoratedDisk,
  decoratedFile,
} from '@stevedore/disk';
import {
  appendFile,
  type ConnectionCounts,
  type CountedOperation,
  deleteFile,
  downloadFile,
  emptyStatistics,
  getMetadata,
  modifyFile,
  type OperationCount,
  type StorageStatistics,
  setMetadata,
  syncAppendFile,
  syncCreateFile,
  syncModifyFile,
  syncUpdateFile,
  truncateFile,
  uploadAppenderFile,
  uploadFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import type { Context, Handler, Reply } from '@stevedore/wire';

/**
 * Counts what a storage has done since its start, for the statistics in its heartbeats.
 * Handlers and disk are wrapped, so none of them knows about it.
 */

interface Counted {
  /** Undefined for changes from other members: only their bytes count. */
  readonly operation?: CountedOperation;
  readonly bytes?: CountedOperation;
  /** True if it changes stored files. */
  readonly changes: boolean;
}

const upload: Counted = { operation: 'upload', bytes: 'uploadBytes', changes: true };

const syncedIn: Counted = { bytes: 'syncInBytes', changes: false };

const COUNTED: ReadonlyMap<number, Counted> = new Map<number, Counted>([
  [uploadFile.code, upload],
  [uploadAppenderFile.code, upload],
  [uploadSlaveFile.code, upload],
  [appendFile.code, { operation: 'append', bytes: 'appendBytes', changes: true }],
  [modifyFile.code, { operation: 'modify', bytes: 'modifyBytes', changes: true }],
  [truncateFile.code, { operation: 'truncate', changes: true }],
  [setMetadata.code, { operation: 'setMetadata', changes: true }],
  [deleteFile.code, { operation: 'delete', changes: true }],
  [downloadFile.code, { operation: 'download', bytes: 'downloadBytes', changes: false }],
  [getMetadata.code, { operation: 'getMetadata', changes: false }],
  [syncCreateFile.code, syncedIn],
  [syncUpdateFile.code, syncedIn],
  [syncAppendFile.code, syncedIn],
  [syncModifyFile.code, syncedIn],
]);

/** What replication itself counts. */
export interface CopyCounts {
  readonly sentBytes: number;
  readonly lastReceivedSeconds: number;
}

export class StorageCounters {
  readonly #nowSeconds: () => number;
  readonly #counts = new Map<CountedOperation, { total: number; success: number }>();
  #lastChangeSeconds = 0;

  constructor(nowSeconds: () => number) {
    this.#nowSeconds = nowSeconds;
  }

  /** Wraps the handler if its command is counted. */
  counted<Session>(handler: Handler<Session>): Handler<Session> {
    const what = COUNTED.get(handler.code);
    if (!what) return handler;
    if (handler.kind === 'control') {
      const answered = (reply: Reply): Reply => {
        this.#end(what);
        return what.bytes === undefined ? reply : this.#sent(reply, what.bytes);
      };
      return {
        ...handler,
        handle: (body: Buffer, context: Context<Session>) => {
          this.#begin(what);
          const reply = handler.handle(body, context);
          return types.isPromise(reply) ? reply.then(answered) : answered(reply);
        },
      };
    }
    return {
      ...handler,
      headBytes: (prefix) => handler.headBytes(prefix),
      handle: (head, payload, context) =>
        this.#received(what, payload.remaining, () => handler.handle(head, payload, context)),
    };
  }

  /** Counts an upload that no handler receives. */
  uploaded<Result>(bytes: number, take: () => Promise<Result>): Promise<Result> {
    return this.#received(upload, bytes, take);
  }

  async #received<Result>(
    what: Counted,
    bytes: number,
    receive: () => Promise<Result>,
  ): Promise<Result> {
    if (what.bytes) this.#count(what.bytes).total += bytes;
    this.#begin(what);
    const result = await receive();
    this.#end(what);
    if (what.bytes) this.#count(what.bytes).success += bytes;
    return result;
  }

  /** Wraps the disk to count opens, reads and writes, and to replace what else is given. */
  counting(disk: Disk, changed: Pick<Disk, 'syncDirectory'> = disk): Disk {
    const counted = decoratedDisk(disk, {}, (file) =>
      decoratedFile(file, {
        readAt: (target, position) => this.#tried('fileRead', file.readAt(target, position)),
        writeAt: (chunks, position) => this.#tried('fileWrite', file.writeAt(chunks, position)),
      }),
    );
    const opened = (opening: Promise<DiskFile>) => this.#tried('fileOpen', opening);
    return decoratedDisk(counted, {
      ...(disk.readNow && { readNow: (...of) => this.#readNow(disk.readNow?.(...of)) }),
      ...(disk.createNow && { createNow: (...of) => this.#createNow(disk.createNow?.(...of)) }),
      create: (path, isWrittenOnce) => opened(counted.create(path, isWrittenOnce)),
      openToRead: (path) => opened(counted.openToRead(path)),
      openToUpdate: (path) => opened(counted.openToUpdate(path)),
      syncDirectory: (path) => changed.syncDirectory(path),
    });
  }

  /** Nothing was tried yet where it gave nothing. */
  #readNow(bytes: Buffer | undefined): Buffer | undefined {
    if (bytes) this.#succeeded('fileOpen', 1);
    if (bytes) this.#succeeded('fileRead', 1);
    return bytes;
  }

  #createNow(created: CreatedNow): CreatedNow {
    if (created === 'created') this.#succeeded('fileOpen', 1);
    if (created === 'created') this.#succeeded('fileWrite', 1);
    return created;
  }

  #succeeded(operation: CountedOperation, amount: number): void {
    const count = this.#count(operation);
    count.total += amount;
    count.success += amount;
  }

  async #tried<Result>(operation: CountedOperation, trying: Promise<Result>): Promise<Result> {
    const count = this.#count(operation);
    count.total += 1;
    const result = await trying;
    count.success += 1;
    return result;
  }

  statistics(connections: ConnectionCounts, copies: CopyCounts): StorageStatistics {
    const empty = emptyStatistics();
    const { sentBytes, lastReceivedSeconds } = copies;
    return {
      connections,
      operations: {
        ...empty.operations,
        ...this.#operations(),
        syncOutBytes: { total: sentBytes, success: sentBytes },
      },
      times: {
        ...empty.times,
        lastSourceUpdateSeconds: this.#lastChangeSeconds,
        lastSyncUpdateSeconds: lastReceivedSeconds,
      },
    };
  }

  #begin({ operation }: Counted): void {
    // As in C storages, a refused download does not count.
    if (operation && operation !== 'download') this.#count(operation).total += 1;
  }

  #end({ operation, changes }: Counted): void {
    if (operation === 'download') this.#count(operation).total += 1;
    if (operation) this.#count(operation).success += 1;
    if (changes) this.#lastChangeSeconds = this.#nowSeconds();
  }

  /** Counts the bytes of a file as they are read for the client. */
  #sent(reply: Reply, operation: CountedOperation): Reply {
    if (Buffer.isBuffer(reply)) {
      this.#succeeded(operation, reply.length);
      return reply;
    }
    const count = this.#count(operation);
    count.total += reply.bytes;
    return {
      bytes: reply.bytes,
      async read(position) {
        const chunk = await reply.read(position);
        count.success += chunk.length;
        return chunk;
      },
      release: () => reply.release(),
    };
  }

  #count(operation: CountedOperation): { total: number; success: number } {
    const known = this.#counts.get(operation);
    if (known) return known;
    const count = { total: 0, success: 0 };
    this.#counts.set(operation, count);
    return count;
  }

  #operations(): Partial<Record<CountedOperation, OperationCount>> {
    return Object.fromEntries([...this.#counts].map(([name, count]) => [name, { ...count }]));
  }
}
