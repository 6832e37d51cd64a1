import type { TimedRequest, Workload } from './workload.js';

/**
 * A recorded access log as a workload: the common or combined log format of Apache and
 * nginx. GET and POST (and PUT) touch the bytes of a file, HEAD and DELETE its metadata.
 * The log's times are whole seconds; the requests of one second are spread evenly over
 * it, so that a replay does not see bursts that the log made. Lines of other shapes,
 * and requests that failed, are counted and left out.
 */

export interface AccessLog {
  readonly workload: Workload;
  readonly requests: number;
  readonly skippedLines: number;
}

const LINE = /^\S+ \S+ \S+ \[([^\]]+)\] "([A-Z]+) (\S+)[^"]*" (\d{3}) (\d+|-)/;
const TIME = /^(\d{2})\/([A-Z][a-z]{2})\/(\d{4}):(\d{2}):(\d{2}):(\d{2}) ([+-])(\d{2})(\d{2})$/;
const MONTHS = 'JanFebMarAprMayJunJulAugSepOctNovDec';
/** What a request for metadata costs: an entry. */
const METADATA_BYTES = 1024;

interface Entry {
  readonly second: number;
  readonly request: TimedRequest['request'];
}

export function accessLog(text: string): AccessLog {
  const entries: Entry[] = [];
  let skippedLines = 0;
  const sizes = new Map<string, number>();
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const entry = parsed(line, sizes);
    if (entry === undefined) skippedLines += 1;
    else entries.push(entry);
  }
  entries.sort((a, b) => a.second - b.second);
  const timed = spread(entries);
  return {
    workload: { arrivals: () => timed[Symbol.iterator]() },
    requests: timed.length,
    skippedLines,
  };
}

function parsed(line: string, sizes: Map<string, number>): Entry | undefined {
  const match = LINE.exec(line);
  if (!match) return undefined;
  const [, time, method, path, status, size] = match as unknown as string[];
  const second = secondsOf(time!);
  if (second === undefined || !status!.startsWith('2')) return undefined;
  const file = path!.split('?', 1)[0]!;
  const bytes = size === '-' ? 0 : Number(size);
  if (method === 'HEAD' || method === 'DELETE') {
    return { second, request: { ...metadataRequest, file } };
  }
  if (method !== 'GET' && method !== 'POST' && method !== 'PUT') return undefined;
  const write = method !== 'GET';
  const fileBytes = Math.max(bytes, write ? 0 : (sizes.get(file) ?? 0));
  sizes.set(file, fileBytes);
  return { second, request: { class: 'smallFile', bytes, file, fileBytes, write } };
}

const metadataRequest = {
  class: 'metadata',
  bytes: METADATA_BYTES,
  fileBytes: 0,
  write: false,
} as const;

function spread(entries: readonly Entry[]): TimedRequest[] {
  const origin = entries[0]?.second ?? 0;
  const timed: TimedRequest[] = [];
  for (let first = 0; first < entries.length; ) {
    let end = first;
    while (end < entries.length && entries[end]!.second === entries[first]!.second) end += 1;
    for (let index = first; index < end; index += 1) {
      const { second, request } = entries[index]!;
      const within = ((index - first) * 1000) / (end - first);
      timed.push({ atMs: (second - origin) * 1000 + within, request });
    }
    first = end;
  }
  return timed;
}

function secondsOf(text: string): number | undefined {
  const match = TIME.exec(text);
  if (!match) return undefined;
  const [, day, month, year, hour, minute, second, sign, zoneHour, zoneMinute] = match;
  const index = MONTHS.indexOf(month!) / 3;
  if (!Number.isInteger(index) || index < 0) return undefined;
  const utc = Date.UTC(+year!, index, +day!, +hour!, +minute!, +second!) / 1000;
  const zone = (Number(zoneHour) * 60 + Number(zoneMinute)) * 60;
  return sign === '+' ? utc - zone : utc + zone;
}
