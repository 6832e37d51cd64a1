import type { ProblemError } from '../problems.js';
import { contentProblem, HEAD_BYTES, isPlainlyOf } from './content-type-check.js';
import type { DigestCheck } from './digests.js';

/**
 * A body on its way to the store, checked as it goes by: its first bytes before
 * any of it is handed on, its checksums before its end is. A body that fails a
 * check does not end, so nothing of it is stored.
 */
export interface BodyChecks {
  /** Held against the first bytes, where the route's policy says so. */
  readonly declaredType: string | undefined;
  readonly digests: DigestCheck | undefined;
  /** Makes a problem that of the whole request. */
  readonly fail: (problem: ProblemError) => ProblemError;
}

export async function* checkedBody(
  chunks: AsyncIterable<Uint8Array>,
  { declaredType, digests, fail }: BodyChecks,
): AsyncGenerator<Uint8Array, void, undefined> {
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
    await checkHead(declaredType!, held, fail);
    yield* held;
  }
  if (head) {
    await checkHead(declaredType!, head, fail);
    yield* head;
  }
  const problem = digests?.problem();
  if (problem) throw fail(problem);
}

/** As `checkedBody`, for a body that is here already. A promise only where one is needed. */
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
  const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  const problem = await contentProblem(type, bytes.subarray(0, HEAD_BYTES));
  if (problem) throw fail(problem);
}
