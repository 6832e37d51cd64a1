import { randomBytes } from 'node:crypto';
import { type Disk, type DiskFile, decoratedFile, privateDisk } from '@stevedore/disk';
import { expect, it, onTestFinished } from 'vitest';
import type { Gateway } from '../../../gateway/dist/start.js';
import { plainGateway } from '../../support/store.js';

/**
 * No error of the system is `internal`: every operation of a gateway's disk fails with errors of
 * every kind, a write and a read with each, under every kind of request.
 */

const KIB = 1024;
const OF_DISK = [
  'create',
  'openToRead',
  'openToUpdate',
  'rename',
  'unlink',
  'syncDirectory',
  'list',
  'space',
] as const satisfies readonly (keyof Disk)[];
const OF_FILE = [
  'stat',
  'readAt',
  'writeAt',
  'writeDurablyAt',
  'truncate',
  'sync',
  'close',
] as const satisfies readonly (keyof DiskFile)[];
const FULL = ['ENOSPC', 'EDQUOT'];
const SHORT = ['EMFILE', 'ENOMEM'];
const FAILED = ['EIO', 'EROFS', 'EACCES', 'ENOENT', 'ETIMEDOUT', -117];
const ALL = [...FULL, ...SHORT, ...FAILED];
/** Of each kind, for operations that fail as others do. */
const SOME = ['ENOSPC', 'EMFILE', 'EIO', 'ENOENT'];

let failing: { readonly operation: string; readonly error: string | number } | undefined;

function failIf(operation: string): void {
  if (failing?.operation !== operation) return;
  const { error } = failing;
  const errno = typeof error === 'number' ? error : -1;
  // So Node calls an error of Linux that it has no name for.
  const code = typeof error === 'number' ? `Unknown system error ${error}` : error;
  throw Object.assign(new Error(`${code}: ${operation}`), { code, errno, syscall: operation });
}

type Action = (...values: never[]) => Promise<unknown>;

function failable<Of extends object>(of: Of, names: readonly (keyof Of & string)[]): Partial<Of> {
  const entries = names.map((name) => {
    const action = (of[name] as Action).bind(of);
    const changed = async (...values: never[]) => {
      // As the system does, so that no test runs out of descriptors.
      if (name === 'close') await action(...values);
      failIf(name);
      const result = await action(...values);
      return name === 'create' || name.startsWith('open') ? decorated(result as DiskFile) : result;
    };
    return [name, changed];
  });
  return Object.fromEntries(entries) as Partial<Of>;
}

function decorated(file: DiskFile): DiskFile {
  const close = async (): Promise<void> => {
    await file.close();
    failIf('close');
  };
  const others = OF_FILE.filter((name) => name !== 'close');
  return decoratedFile(file, { ...failable(file, others), close });
}

let gateway: Gateway;

async function openGateway(): Promise<void> {
  const before = { ...privateDisk };
  Object.assign(privateDisk, failable(privateDisk, OF_DISK));
  onTestFinished(() => void Object.assign(privateDisk, before));
  gateway = await plainGateway({
    smallFileLimit: 64 * KIB,
    mergeMaxAge: '1h',
    cacheSize: 0,
  });
}

const TUS = { 'tus-resumable': '1.0.0' };
const PATCH = { ...TUS, 'content-type': 'application/offset+octet-stream' };

function send(method: string, path: string, headers = {}, body?: Buffer | FormData) {
  return fetch(gateway.url + path, { method, headers, ...(body ? { body } : {}) });
}

/** Files and uploads that are sound. */
async function stored() {
  const put = async (bytes: number) =>
    ((await (await send('POST', '/files', {}, randomBytes(bytes))).json()) as { key: string }).key;
  const begin = async (bytes: number) =>
    (await send('POST', '/uploads', { ...TUS, 'upload-length': String(bytes) })).headers.get(
      'location',
    )!;
  const [small, large] = [await put(5 * KIB), await put(200 * KIB)];
  const [ended, open, left] = [await begin(100 * KIB), await begin(3 * KIB), await begin(KIB)];
  await send('PATCH', ended, { ...PATCH, 'upload-offset': '0' }, randomBytes(99 * KIB));
  return { small, large, ended, open, left };
}

type Stored = Awaited<ReturnType<typeof stored>>;

/** Every kind of request that touches the disk. */
const requests: readonly ((at: Stored) => Promise<Response>)[] = [
  () => send('POST', '/files', {}, randomBytes(5 * KIB)),
  () => send('POST', '/files', {}, randomBytes(200 * KIB)),
  () => send('POST', '/files', { 'idempotency-key': `key-${Math.random()}` }, randomBytes(KIB)),
  () => {
    const form = new FormData();
    form.append('a', new Blob([randomBytes(KIB)]), 'a');
    form.append('b', new Blob([randomBytes(100 * KIB)]), 'b');
    return send('POST', '/files', {}, form);
  },
  () => send('POST', '/uploads', { ...TUS, 'upload-length': '10' }),
  ({ open }) => send('PATCH', open, { ...PATCH, 'upload-offset': '0' }, randomBytes(3 * KIB)),
  ({ ended }) =>
    send('PATCH', ended, { ...PATCH, 'upload-offset': String(99 * KIB) }, randomBytes(KIB)),
  ({ open }) => send('HEAD', open, TUS),
  ({ left }) => send('DELETE', left, TUS),
  ({ small }) => send('GET', `/files/${small}`),
  ({ large }) => send('GET', `/files/${large}`),
  ({ large }) => send('GET', `/files/${large}`, { range: 'bytes=100-300' }),
  ({ small }) => send('HEAD', `/files/${small}`),
  ({ small }) => send('GET', `/files/${small}/info`),
  () => send('GET', '/files?limit=5'),
  ({ small }) => send('DELETE', `/files/${small}`),
  ({ large }) => send('DELETE', `/files/${large}`),
];

interface Seen {
  readonly status: number;
  readonly code: string | undefined;
  readonly isComplete: boolean;
}

async function seen(request: Promise<Response>): Promise<Seen> {
  const answer = await request;
  const text = await answer.text().catch(() => undefined);
  const isProblem = answer.headers.get('content-type') === 'application/problem+json';
  if (isProblem && (answer.status === 503 || answer.status === 507)) {
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
  }
  const code = isProblem && text ? (JSON.parse(text) as { code: string }).code : undefined;
  return { status: answer.status, code, isComplete: text !== undefined };
}

/** What may be answered while the operation fails so. */
function answersTo(operation: string, error: string | number): RegExp {
  // A file whose bytes alone cannot be read is damaged: there is no other copy of it.
  const isRead = operation === 'readAt' || operation === 'openToRead';
  const other = isRead ? '401|403|404|409|500 corrupt' : '401|403|404|409';
  if (FULL.includes(error as string)) return new RegExp(`^(507 disk_full|${other})`);
  return new RegExp(
    `^(503 ${SHORT.includes(error as string) ? 'overloaded' : 'disk_failed'}|${other})`,
  );
}

it.each([...OF_DISK, ...OF_FILE])(
  'no answer is internal when %s fails',
  async (operation) => {
    await openGateway();
    let at = await stored();
    for (const error of operation === 'writeAt' || operation === 'readAt' ? ALL : SOME) {
      failing = { operation, error };
      const codes = new Set<string>();
      try {
        for (const request of requests) {
          const { status, code } = await seen(request(at));
          if (code !== undefined) codes.add(`${status} ${code}`);
          else expect(status).not.toBe(500);
        }
      } finally {
        failing = undefined;
      }
      const allowed = answersTo(operation, error);
      expect({ error, codes: [...codes].filter((code) => !allowed.test(code)) }).toEqual({
        error,
        codes: [],
      });
      // And works again.
      at = await stored();
      for (const key of [at.small, at.large]) {
        expect(await seen(send('GET', `/files/${key}`))).toMatchObject({ status: 200 });
      }
    }
  },
  120_000,
);
