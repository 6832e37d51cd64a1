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

/** As `checkedBody`, for a body that is in memory. Returns a promise only if it must. */
export function checkBytes(bytes: Buffer, checks: BodyChecks): Promise<void> | undefined {
  const { declaredType, digests } = checks;
  const isPlain = declaredType === undefined || isPlainlyOf(declaredType, bytes);
  return isPlain && !digests ? undefined : checkWhole(bytes, checks);
}

async function checkWhole(bytes: Buffer, checks: BodyChecks): Promise<void> {
  if (checks.declaredType !== undefined) await checkHead(checks.declaredType, [bytes], checks.fail);
  checks.digests?.update(bytes);
  const problem = checks.digests?.problem();
  if (problem) throw checks.fail(problem);
}

async function checkHead(
  type: string,
  chunks: readonly Uint8Array[],
  fail: BodyChecks['fail'],
): Promise<void> {
  const [only] = chunks;
  const bytes = only && chunks.length === 1 ? only : Buffer.concat(chunks);
  const problem = await contentProblem(type, bytes.subarray(0, HEAD_BYTES));
  if (problem) throw fail(problem);
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
  /^image\/(?:heic|heif|heic-sequence|heif-sequence|avif)$/,
  /^(?:application|audio|video)\/(?:ogg|opus|x-ogg)$/,
  /^(?:audio|video)\/(?:webm|matroska|x-matroska)$/,
  /^application\/(?:zip|epub\+zip|java-archive|vnd\.openxmlformats-.*|vnd\.oasis\..*)$/,
  /^application\/(?:msword|vnd\.ms-excel|vnd\.ms-powerpoint|x-cfb)$/,
  /^(?:application\/xml|[a-z]+\/[a-z0-9.-]+\+xml)$/,
];

interface Detector {
  readonly detect: (head: Uint8Array) => Promise<string | undefined>;
  readonly known: ReadonlySet<string>;
}

let detector: Promise<Detector> | undefined;

function loadDetector(): Promise<Detector> {
  detector ??= import('file-type').then(({ fileTypeFromBuffer, supportedMimeTypes }) => ({
    detect: async (head) => (await fileTypeFromBuffer(head))?.mime,
    known: new Set([...supportedMimeTypes].map(normalize)),
  }));
  return detector;
}

/** True if the first bytes decide it; false means that more are needed. */
function isPlainlyOf(declared: string, head: Uint8Array): boolean {
  const type = normalize(declared);
  return type === DEFAULT_TYPE || head.length === 0 || hasOwnSignature(type, head);
}

/** Undefined if the bytes may be of that type. */
async function contentProblem(
  declared: string,
  head: Uint8Array,
): Promise<ProblemError | undefined> {
  if (isPlainlyOf(declared, head)) return undefined;
  const type = normalize(declared);
  const { detect, known } = await loadDetector();
  const found = await detect(head).catch(() => undefined);
  if (found !== undefined) return isSame(type, normalize(found)) ? undefined : mismatch(declared);
  // Text has no signature, and no zero bytes.
  if (/^text\/|^application\/(?:json|javascript|xml)$|\+(?:json|xml)$/.test(type))
    return head.includes(0) ? mismatch(declared) : undefined;
  return known.has(type) ? mismatch(declared) : undefined;
}

/** The most common types, recognisable by their first bytes alone. */
const SIGNATURES: Readonly<Record<string, readonly number[]>> = {
  'application/pdf': [0x25, 0x50, 0x44, 0x46, 0x2d],
  'image/gif': [0x47, 0x49, 0x46, 0x38],
  'image/jpeg': [0xff, 0xd8, 0xff],
};
/** A PNG's header chunk follows its signature; an animated one is recognised by a later chunk. */
const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');

function hasOwnSignature(type: string, head: Uint8Array): boolean {
  if (type === 'image/png') return PNG.equals(head.subarray(0, PNG.length));
  const signature = Object.hasOwn(SIGNATURES, type) ? SIGNATURES[type] : undefined;
  return signature?.every((byte, index) => head[index] === byte) === true;
}

function isSame(declared: string, found: string): boolean {
  if (declared === found) return true;
  return FAMILIES.some((family) => family.test(declared) && family.test(found));
}

function normalize(type: string): string {
  const name = essence(type);
  return ALIASES[name] ?? name;
}

function mismatch(declared: string): ProblemError {
  return new ProblemError(
    'type_mismatch',
    `The file's first bytes do not match ${essence(declared)}.`,
  );
}
