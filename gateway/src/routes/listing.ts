import { Readable } from 'node:stream';
import { type FileInfo, isStoreError, type ListOptions, type Store } from '@stevedore/client';
import { parseTime } from '@stevedore/client/internal';
import {
  type Answer,
  type Files,
  formatDisposition,
  ProblemError,
} from '@stevedore/middleware/core';
import type { FastifyRequest } from 'fastify';
import type { Access, AskedBy } from '../access/access.js';
import { EntryNames } from '../entry-names.js';
import { PacedStream } from '../http/paced-stream.js';
import { filesBase } from '../http/public-address.js';
import { type ZipEntry, zipOf } from '../http/zip.js';

/** `/files?group=…`: a listing, its files as a ZIP, and their deletion; `/groups`. */

interface ListingRoutes {
  readonly files: Files;
  readonly access: Access;
}

/** A ZIP's directory is kept in memory until its end. */
const MAX_ZIP_FILES = 50_000;
const FILES_PER_PAGE = 10_000;
const DELETIONS_AT_ONCE = 16;

/** GET and HEAD. */
export async function list(
  request: FastifyRequest,
  { files, access }: ListingRoutes,
): Promise<Answer> {
  const asked = request as AskedBy;
  await access.list(asked);
  const options = listOptions(asked.query);
  const { format } = asked.query;
  if (format === undefined || format === 'json') {
    return files.list(request.raw, options, filesBase(request));
  }
  if (format !== 'zip') throw new ProblemError('invalid_option', 'format is json or zip.');
  // Bytes of files whose keys the listing has shown.
  await access.info(asked, '');
  return zip(request, files, options);
}

/** GET and HEAD. */
export async function listGroups(
  request: FastifyRequest,
  { files, access }: ListingRoutes,
): Promise<Answer> {
  const asked = request as AskedBy;
  await access.list(asked);
  return files.groups(request.raw, listOptions(asked.query));
}

/** All files of the listing, page after page, read while they are sent. */
async function zip(
  { method }: FastifyRequest,
  { store, unsent }: Files,
  options: ListOptions,
): Promise<Answer> {
  const listed = await allListed(store, options);
  const headers = {
    'content-type': 'application/zip',
    'content-disposition': formatDisposition('attachment', `${options.group ?? 'files'}.zip`),
    'cache-control': 'private, no-store',
    'x-content-type-options': 'nosniff',
  };
  if (method === 'HEAD') return { status: 200, headers };
  const stream = Readable.from(zipOf(entriesOf(store, listed)), { objectMode: false });
  const content = new PacedStream(stream, unsent);
  return { status: 200, headers, content };
}

type Listed = Pick<FileInfo, 'key' | 'name' | 'size' | 'crc32' | 'stagedAt'>;

/**
 * Rejects with `too_many_files`, `storage_unavailable` if a server does not answer, and `not_found`
 * if there is no file.
 */
async function allListed(store: Store, options: ListOptions): Promise<Listed[]> {
  const all: Listed[] = [];
  // A ZIP cannot say that it lacks files: the listing ends with an error then.
  for await (const file of store.list({ ...options, limit: FILES_PER_PAGE })) {
    const { key, name, size, crc32, stagedAt } = file;
    all.push({ key, name, size, crc32, stagedAt });
    if (all.length > MAX_ZIP_FILES) {
      const message = `A ZIP has at most ${MAX_ZIP_FILES} files; ask for fewer with since and until.`;
      throw new ProblemError('too_many_files', message);
    }
  }
  if (all.length === 0) throw new ProblemError('not_found', 'No file matches.');
  return all;
}

async function* entriesOf(
  store: Store,
  listed: readonly Listed[],
): AsyncGenerator<ZipEntry, void, undefined> {
  const names = new EntryNames();
  for (const { key, name, size, crc32, stagedAt: modifiedAt } of listed) {
    const content = await unlessGone(async () => (await store.get(key)).content());
    if (!content) continue;
    try {
      yield { name: names.add(name, key), size, crc32, modifiedAt, content };
    } finally {
      // Also if nobody has begun to read it.
      if (!Buffer.isBuffer(content)) content.destroy();
    }
  }
}

/** Undefined if the file was deleted since it was listed. */
async function unlessGone<Result>(action: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await action();
  } catch (error) {
    if (isStoreError(error, 'not_found')) return undefined;
    throw error;
  }
}

/**
 * DELETE of a group's files, a page at a time. The answer has their number and, if there may be
 * more, `next`; repeating the request continues.
 */
export async function removeListed(
  request: FastifyRequest,
  { files, access }: ListingRoutes,
): Promise<Answer> {
  const asked = request as AskedBy;
  const options = listOptions(asked.query);
  if (options.group === undefined) {
    throw new ProblemError('bad_request', 'Name a file by id, or files by group.');
  }
  await access.list(asked);
  await access.remove(asked, '');
  const { files: listed, ...rest } = await files.store.list(options);
  const queue = listed.values();
  let deleted = 0;
  const worker = async (): Promise<void> => {
    for (const { key } of queue) {
      if (await unlessGone(() => files.remove(key))) deleted += 1;
    }
  };
  await Promise.all(Array.from({ length: DELETIONS_AT_ONCE }, worker));
  return files.answer({ deleted, ...rest });
}

/** Throws `invalid_option`. */
export function listOptions(query: AskedBy['query']): ListOptions {
  const text = (name: string): string | undefined => {
    const value = query[name];
    if (value === undefined || typeof value === 'string') return value || undefined;
    throw new ProblemError('invalid_option', `${name} is given twice.`);
  };
  const read = <Value>(name: string, what: string, parse: (given: string) => Value | undefined) => {
    const given = text(name);
    const value = given === undefined ? undefined : parse(given);
    if (given === undefined || value !== undefined) return value;
    throw new ProblemError('invalid_option', `${name} is ${what}.`);
  };
  const number = (name: string) =>
    read(name, 'a whole number', (given) => (/^\d{1,15}$/.test(given) ? Number(given) : undefined));
  const flag = (name: string) =>
    // Without a value it is set, too.
    query[name] === '' ||
    read(name, 'true or false', (given) =>
      given === 'true' || given === 'false' ? given === 'true' : undefined,
    );
  const date = (name: string) =>
    read(name, 'a time of RFC 3339, such as 2030-01-31 or 2030-01-31T12:00:00Z', parseTime);
  const options = {
    group: text('group'),
    namePrefix: text('name-prefix'),
    nameContains: text('name-contains'),
    type: text('type'),
    since: date('since'),
    until: date('until'),
    minSize: number('min-size'),
    maxSize: number('max-size'),
    order: read('order', 'oldest or newest', (given) =>
      given === 'oldest' || given === 'newest' ? given : undefined,
    ),
    after: text('after'),
    limit: number('limit'),
    derived: flag('derived'),
    onlyHere: flag('only-here'),
  };
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as ListOptions;
}
