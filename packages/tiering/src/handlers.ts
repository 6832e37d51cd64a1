import { type Access, type Costs, costOf } from '@stevedore/balance';
import {
  appendFile,
  deleteFile,
  getMetadata,
  migrationControl,
  modifyFile,
  queryFileInfo,
  setMetadata,
  truncateFile,
  uploadAppenderFile,
  uploadFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { type Context, control, type Handler, Payload } from '@stevedore/wire';
import type { Migration } from './migration/migration.js';
import type { RequestClass, Scheduler } from './scheduler/scheduler.js';

/**
 * Runs handlers through the scheduler; `Tiering.download` does it for downloads. A small upload is
 * received first, so that a slow client does not occupy the disk. Large files are not scheduled.
 */

const CLASSES: ReadonlyMap<number, RequestClass> = new Map([
  [setMetadata.code, 'metadata'],
  [getMetadata.code, 'metadata'],
  [queryFileInfo.code, 'metadata'],
  [deleteFile.code, 'metadata'],
  [uploadFile.code, 'smallFile'],
  [uploadAppenderFile.code, 'smallFile'],
  [uploadSlaveFile.code, 'smallFile'],
  [appendFile.code, 'smallFile'],
  [modifyFile.code, 'smallFile'],
  [truncateFile.code, 'smallFile'],
]);

const READS: ReadonlySet<number> = new Set([getMetadata.code, queryFileInfo.code]);

/** The payload is already in memory, so no wait is long. */
const MEMORY_TIMEOUT_MS = 1000;

export function scheduled<Session>(
  handler: Handler<Session>,
  scheduler: Scheduler,
  costs: Costs,
  /** Largest payload that counts as small. */
  maxSmallBytes: () => number,
): Handler<Session> {
  const kind = CLASSES.get(handler.code);
  if (kind === undefined) return handler;
  const access: Access = READS.has(handler.code) ? 'read' : 'write';
  if (handler.kind === 'control') {
    return {
      ...handler,
      handle: async (body: Buffer, context: Context<Session>) => {
        const handle = async () => handler.handle(body, context);
        return scheduler.run(kind, costOf(costs, access, body.length), handle);
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
      // Returns everything at once; a payload never asks for less than there is.
      const source = { some: async () => received.splice(0) };
      const memory = new Payload(source, bytes, MEMORY_TIMEOUT_MS);
      const cost = costOf(costs, access, bytes);
      return scheduler.run(kind, cost, () => handler.handle(head, memory, context));
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
