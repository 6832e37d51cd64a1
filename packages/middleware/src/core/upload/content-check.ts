import { DEFAULT_TYPE, essence } from '../http/content-headers.js';
import { ProblemError } from '../problems.js';
import type { DigestCheck } from './digests.js';

/**
 * Checks a body on its way to the store: its first bytes, which must match the declared type,
 * before any are passed on; its checksums before its end. A body that fails a check never ends, so
 * nothing of it is stored.
 */
export interface BodyChecks {
  /** Compared with the first bytes, if the route's policy says so. */
  readonly declaredType: string | undefined;
  readonly digests: DigestCheck | undefined;
  /** Makes a problem that of the whole request. */
  readonly fail: (problem: ProblemError) => ProblemError;
}

export async function* checkedBody(
  chunks: AsyncIterable<Uint8Array>,
  { declaredType, digests, fail }: BodyChecks,
): AsyncGenerator<Uint8Array, void, undefined> {
  const type = declaredType ?? '';
  let head: Uint8Array[] | undefined = declaredType === undefined ? undefined : [];
  let headBytes = 0;
  for await (const chunk of chunks) {
    digests?.update(chunk);
    if (!head) {
      yield chunk;
      continue;
    }
    head.push(chunk);
    headBytes += chunk.length;
    if (headBytes < HEAD_BYTES) continue;
    const held = head;
    head = undefined;
    await checkHead(type, held, fail);
    yield* held;
  }
  if (head) {
    await checkHead(type, head, fail);
    yield* head;
  }
  const problem = digests?.problem();
  if (problem) throw fail(problem);
}

/** As `checkedBody`, for a body that is in memory. */
export async function checkBytes(
  bytes: Buffer,
  { declaredType, digests, fail }: BodyChecks,
): Promise<void> {
  if (declaredType !== undefined) await checkHead(declaredType, [bytes], fail);
  digests?.update(bytes);
  const problem = digests?.problem();
  if (problem) throw fail(problem);
}

async function checkHead(
  type: string,
  chunks: readonly Uint8Array[],
  fail: BodyChecks['fail'],
): Promise<void> {
  const [only] = chunks;
  const bytes = only && chunks.length === 1 ? only : Buffer.concat(chunks);
  if (await isOf(normalize(type), bytes.subarray(0, HEAD_BYTES))) return;
  const message = `The file's first bytes do not match ${essence(type)}.`;
  throw fail(new ProblemError('type_mismatch', message));
}

/**
 * A type that has a signature must show it; a type without one must not show another's. The
 * detector is loaded when the first route needs it.
 */

/** Bytes to examine; every signature lies within. */
const HEAD_BYTES = 4100;

/** Synonyms of types. */
const ALIASES: Readonly<Record<string, string>> = {
  'application/gzip': 'application/x-gzip',
  'application/x-zip-compressed': 'application/zip',
  'audio/mp3': 'audio/mpeg',
  'audio/vnd.wave': 'audio/wav',
  'audio/x-wav': 'audio/wav',
  'image/jpg': 'image/jpeg',
  'image/pjpeg': 'image/jpeg',
  'image/vnd.microsoft.icon': 'image/x-icon',
  'image/x-png': 'image/png',
  'text/xml': 'application/xml',
};

/** One signature covers all types of a family: they differ deeper in the file. */
const FAMILIES: readonly RegExp[] = [
  /^(?:video|audio)\/(?:mp4|quicktime|x-m4a|x-m4v|x-m4b|3gpp|3gpp2)$/,
  /^image\/a?png$/,
  /^image\/(?:heic|heif|heic-sequence|heif-sequence|avif)$/,
  /^(?:application|audio|video)\/(?:ogg|opus|x-ogg)$/,
  /^(?:audio|video)\/(?:webm|matroska|x-matroska)$/,
  /^application\/(?:zip|epub\+zip|java-archive|vnd\.openxmlformats-.*|vnd\.oasis\..*)$/,
  /^application\/(?:msword|vnd\.ms-excel|vnd\.ms-powerpoint|x-cfb)$/,
  /^(?:application\/xml|[a-z]+\/[a-z0-9.-]+\+xml)$/,
];

async function isOf(type: string, head: Uint8Array): Promise<boolean> {
  if (type === DEFAULT_TYPE || head.length === 0) return true;
  const { fileTypeFromBuffer, supportedMimeTypes } = await import('file-type');
  const found = await fileTypeFromBuffer(head).catch(() => undefined);
  if (found) {
    const own = normalize(found.mime);
    return type === own || FAMILIES.some((family) => family.test(type) && family.test(own));
  }
  // Text has no signature, and no zero bytes.
  if (/^text\/|^application\/(?:json|javascript|xml)$|\+(?:json|xml)$/.test(type)) {
    return !head.includes(0);
  }
  return ![...supportedMimeTypes].some((known) => normalize(known) === type);
}

function normalize(type: string): string {
  const name = essence(type);
  return ALIASES[name] ?? name;
}
