import type { IncomingHttpHeaders } from 'node:http';
import type { Receipt, Store } from '@stevedore/client';
import { DEFAULT_TYPE, fileNameOf, mediaType } from '../http/content-headers.js';
import type { TransferLimits } from '../limits.js';
import { ProblemError } from '../problems.js';
import { expiryOf, typeProblem, type UploadPolicy } from './policy.js';
import { groupOf } from './receive.js';
import { tooLarge } from './request-body.js';

/**
 * Gives a file that is in FastDFS already a key, without copying it. Name, type, group and expiry
 * are in the headers of an upload without a body, and the policy holds as for an upload. Throws what `Store.register` does, and problems
 * of the headers.
 */
export async function registerFile(
  headers: IncomingHttpHeaders,
  fileId: string,
  { store, limits, policy }: RegisterContext,
): Promise<Receipt> {
  if (!store.register) {
    throw new ProblemError('invalid_option', 'This store gives no keys to files of FastDFS.');
  }
  if (Number(headers['content-length'] ?? 0) > 0 || headers['transfer-encoding'] !== undefined) {
    throw new ProblemError('bad_request', 'With id, an upload has no body.');
  }
  const declared = headers['content-type'];
  const type = mediaType(declared) ?? (declared === undefined ? DEFAULT_TYPE : undefined);
  if (type === undefined) {
    throw new ProblemError('invalid_media_type', 'Content-Type is not a media type.');
  }
  const refused = typeProblem(type, policy);
  if (refused) throw refused;
  const { maxFileBytes } = policy;
  if (maxFileBytes !== undefined) {
    const { size } = await store.stat(fileId);
    if (size > maxFileBytes) throw tooLarge(maxFileBytes);
  }
  const name = fileNameOf(headers, limits);
  const group = policy.group ?? groupOf(headers);
  return store.register(fileId, {
    ...(name === '' ? {} : { name }),
    ...(group === undefined ? {} : { group }),
    type,
    ...expiryOf(headers, policy, Date.now()),
  });
}

export interface RegisterContext {
  readonly store: Store;
  readonly limits: TransferLimits;
  readonly policy: UploadPolicy;
}
