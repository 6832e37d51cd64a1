import { createHash } from 'node:crypto';
import { infoOf } from '../connect/answers.js';
import type { FileInfo } from '../store/types.js';

/**
 * What a gateway answers about several files: a line of JSON with the facts of each, or why there
 * are none, and then the bytes of the small ones, in the same order. The proof of the answer covers
 * a digest of the line, and the CRC-32 in the line the bytes.
 */

/** Longest file whose bytes come with its facts. */
export const MAX_INLINE_BYTES = 256 * 1024;
/** Keys of one question, and the bytes after which the answer has facts alone. */
export const MAX_FACTS_KEYS = 64;
export const MAX_FACTS_BYTES = 2 ** 20;

export type ToldFile =
  /** The facts as in the JSON of a receipt. */
  | { readonly facts: object; readonly bytes: Buffer | undefined }
  /** Code of a problem. */
  | { readonly problem: string };

export type HeardFile =
  | { readonly info: FileInfo; readonly bytes: Buffer | undefined }
  | { readonly problem: string };

/** The answer, and the digest of its line, which the proof covers. */
export function writeFacts(files: readonly ToldFile[]): {
  readonly digest: string;
  readonly content: Buffer;
} {
  const line = JSON.stringify(
    files.map((each) =>
      'problem' in each ? each : { ...each.facts, isHere: each.bytes !== undefined },
    ),
  );
  const bytes = files.flatMap((each) => ('bytes' in each && each.bytes ? [each.bytes] : []));
  return { digest: digestOf(line), content: Buffer.concat([Buffer.from(`${line}\n`), ...bytes]) };
}

/** Throws for an answer that is not about these keys, has another digest, or ends early. */
export function readFacts(content: Buffer, keys: readonly string[], digest: unknown): HeardFile[] {
  const line = content.toString('utf8', 0, Math.max(0, content.indexOf('\n')));
  if (digestOf(line) !== digest) throw new Error('it does not say what the files are');
  const told = JSON.parse(line) as readonly Record<string, unknown>[];
  let at = Buffer.byteLength(line) + 1;
  return keys.map((key, index) => {
    const one = told[index];
    if (typeof one?.problem === 'string') return { problem: one.problem };
    const info = infoOf(one);
    if (info?.key !== key) throw new Error('it does not say what the file is');
    if (one?.isHere !== true) return { info, bytes: undefined };
    const bytes = content.subarray(at, at + info.size);
    at += info.size;
    if (bytes.length !== info.size) throw new Error('it ends within a file');
    return { info, bytes };
  });
}

function digestOf(line: string): string {
  return createHash('sha256').update(line).digest('base64url');
}
