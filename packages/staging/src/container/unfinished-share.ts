import { StoreError } from '../errors.js';
import type { UnfinishedAbout } from './unfinished-record.js';

/** Maximum number of unfinished uploads, in addition to the limit on their bytes. */
const MAX_UNFINISHED = 10_000;

/** Throws `container_full` or `too_many_unfinished` if one more upload is one too many. */
export function checkShare(
  uploads: ReadonlyMap<string, { readonly about: UnfinishedAbout }>,
  { owner }: UnfinishedAbout,
  maxOfOwner: number,
): void {
  if (uploads.size >= MAX_UNFINISHED) {
    const message = `${MAX_UNFINISHED} uploads are unfinished; finish or remove some, or wait until they are too old`;
    throw new StoreError('container_full', message, { retryable: true });
  }
  if (owner === undefined) return;
  let count = 0;
  for (const { about } of uploads.values()) if (about.owner === owner) count += 1;
  if (count < maxOfOwner) return;
  const message = `${count} uploads of this client are unfinished; finish or remove some, or wait until they are too old`;
  throw new StoreError('too_many_unfinished', message, { retryable: true });
}
