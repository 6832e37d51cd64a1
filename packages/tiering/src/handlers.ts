import type { Access } from '@stevedore/balance';
import {
  CommandCode,
  DownloadFlag,
  downloadFile,
  migrationControl,
  Status,
} from '@stevedore/protocol';
import { type Context, control, type Handler, Payload, StatusError } from '@stevedore/wire';
import type { Migration } from './migration/migration.js';
import type { DiskCosts } from './scheduler/costs.js';
import type { RequestClass, Scheduler } from './scheduler/scheduler.js';

/**
 * Runs handlers through the scheduler. A small upload is received first, so that a slow client does
 * not occupy the disk. Large files and files in another group are not scheduled: the latter do not
 * use the disk.
 */

const CLASSES: ReadonlyMap<number, RequestClass> = new Map([
  [CommandCode.setMetadata, 'metadata'],
  [CommandCode.getMetadata, 'metadata'],
  [CommandCode.queryFileInfo, 'metadata'],
  [CommandCode.deleteFile, 'metadata'],
  [CommandCode.createLink, 'metadata'],
  [CommandCode.uploadFile, 'smallFile'],
  [CommandCode.uploadAppenderFile, 'smallFile'],
  [CommandCode.uploadSlaveFile, 'smallFile'],
  [CommandCode.appendFile, 'smallFile'],
  [CommandCode.modifyFile, 'smallFile'],
  [CommandCode.truncateFile, 'smallFile'],
  [CommandCode.downloadFile, 'smallFile'],
]);

const READS: ReadonlySet<number> = new Set([
  CommandCode.getMetadata,
  CommandCode.queryFileInfo,
  CommandCode.downloadFile,
]);

/** The payload is already in memory, so no wait is long. */
const MEMORY_TIMEOUT_MS = 1000;

export function scheduled<Session>(
  handler: Handler<Session>,
  scheduler: Scheduler,
  costs: DiskCosts,
  /** Largest payload that counts as small. */
  maxSmallBytes: () => number,
  /** Bytes that a request without payload reads or writes; undefined if it is not scheduled. */
  bytesOf: (code: number, body: Buffer) => number | undefined,
): Handler<Session> {
  const kind = CLASSES.get(handler.code);
  if (kind === undefined) return handler;
  const access: Access = READS.has(handler.code) ? 'read' : 'write';
  if (handler.kind === 'control') {
    return {
      ...handler,
      handle: async (body: Buffer, context: Context<Session>) => {
        const bytes = bytesOf(handler.code, body);
        const handle = async () => handler.handle(body, context);
        return bytes === undefined
          ? handle()
          : scheduler.run(kind, costs.of(access, bytes), handle);
      },
    };
  }
  return {
    ...handler,
    headBytes: (prefix) => handler.headBytes(prefix),
    handle: async (head, payload, context) => {
      const bytes = payload.remaining;
      if (bytes > maxSmallBytes()) return handler.handle(head, payload, context);
      const received: Buffer[] = [];
      while (payload.remaining > 0) received.push(...(await payload.next()));
      const memory = new Payload(inMemory(received), bytes, MEMORY_TIMEOUT_MS);
      const cost = costs.of(access, bytes);
      return scheduler.run(kind, cost, () => handler.handle(head, memory, context));
    },
  };
}

/** Returns everything at once; a payload never asks for less than there is. */
function inMemory(chunks: Buffer[]) {
  return { some: async () => chunks.splice(0) };
}

/**
 * DOWNLOAD_FILE of a file in another group. A client that asks for the place gets it and reads
 * there; for any other client, this storage fetches the bytes.
 */
export function redirecting<Session>(
  handler: Handler<Session>,
  placeOf: (body: Buffer) => string | undefined,
): Handler<Session> {
  if (handler.code !== downloadFile.code || handler.kind !== 'control') return handler;
  return {
    ...handler,
    handle: (body: Buffer, context: Context<Session>) => {
      const isWanted = (context.header.status & DownloadFlag.placeWanted) !== 0;
      const place = isWanted ? placeOf(body) : undefined;
      if (place === undefined) return handler.handle(body, context);
      throw new StatusError(Status.elsewhere, place, Buffer.from(place));
    },
  };
}

/** MIGRATION_CONTROL: status, pause, resume, dry-run, recall. Answers with the resulting status. */
export function migrationHandler<Session>(migration: Migration): Handler<Session> {
  return control(migrationControl, (action) => {
    if (action === 'pause') migration.pause();
    if (action === 'resume') migration.resume();
    if (action === 'dry-run') migration.dryRun();
    if (action === 'recall') migration.recall();
    return Buffer.from(JSON.stringify(migration.status()));
  });
}
