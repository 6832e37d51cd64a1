import {
  encodeListingLine,
  fetchOnePathBinlog,
  LISTING_END_BYTES,
  OPEN_BODY_BYTES,
} from '@stevedore/protocol';
import type { Handler, Reply, StreamedReply } from '@stevedore/wire';
import { invalid } from '../refusals.js';
import type { StorageService } from '../service.js';
import type { Position } from './binlog.js';
import { type LogRecord, parseLoggedName } from './log-record.js';

/**
 * FETCH_ONE_PATH_BINLOG: lists the files that exist in one store path, from the binlog. A
 * renamed file counts as created. A name that was used twice (a slave that was deleted and
 * stored again) is listed twice, as C storages do.
 */
export function pathListHandler<Session>(service: StorageService): Handler<Session> {
  const handle = async (body: Buffer): Promise<Reply> => {
    const { group, storePathIndex } = fetchOnePathBinlog.request.decode(body);
    if (group !== service.settings.group || storePathIndex >= service.storePaths.all.length) {
      throw invalid('another group, or no such store path');
    }
    return pathList(service, storePathIndex);
  };
  return { kind: 'control', code: fetchOnePathBinlog.code, handle };
}

function pathList(service: StorageService, storePathIndex: number): StreamedReply {
  const { log } = service.replication;
  const until = log.end;
  let from: Position = 0;
  let textBytes = 0;
  let state: 'listing' | 'listed' | 'over' = 'listing';
  return {
    bytes: OPEN_BODY_BYTES,
    openEnded: true,
    async read() {
      while (state === 'listing') {
        const { entries, next } = await log.read(from);
        // Later records are left to the next request.
        const wanted = entries.filter(({ end }) => end <= until).map(({ record }) => record);
        if (next === from || next >= until) state = 'listed';
        from = next;
        const lines = await Promise.all(
          wanted.map((record) => lineOf(service, record, storePathIndex)),
        );
        const text = Buffer.from(lines.join(''), 'latin1');
        textBytes += text.length;
        if (text.length > 0) return text;
      }
      if (state === 'over') return Buffer.alloc(0);
      state = 'over';
      const end = Buffer.alloc(LISTING_END_BYTES);
      end.writeBigInt64BE(BigInt(textBytes));
      return end;
    },
    release: () => {},
  };
}

/** The record's line if its file exists, else an empty text. */
async function lineOf(
  service: StorageService,
  record: LogRecord,
  storePathIndex: number,
): Promise<string> {
  const operation = record.operation === 'R' ? 'C' : record.operation;
  if (operation !== 'C' && operation !== 'L') return '';
  const { backend, settings, store, storePaths } = service;
  const name = parseLoggedName(settings.group, record.name, storePaths.all.length);
  if (!name || name.part === 'deleted slices' || name.id.storePathIndex !== storePathIndex) {
    return '';
  }
  const path = store.pathOf(name.id);
  const isMetadata = name.part === 'metadata';
  if (!(await (isMetadata ? backend.hasMetadata(path) : backend.exists(path)))) return '';
  return encodeListingLine({
    seconds: record.atSeconds,
    isSource: record.own,
    name: record.name,
    ...(operation === 'L' ? { linkTo: record.extra } : {}),
  });
}
