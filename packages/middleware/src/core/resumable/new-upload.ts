import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Metadata } from '@tus/server';
import type { TransferLimits } from '../limits.js';
import { ProblemError } from '../problems.js';
import { expiryOf, typeProblem, type UploadPolicy } from '../upload/policy.js';
import type { Note } from './note.js';
import type { ResumableRequest } from './resumable-request.js';
import type { Begin } from './tus-store.js';
import { metadataOf } from './upload-headers.js';

const ANYTHING: UploadPolicy = {};

/** What a new upload is to become, under the route's policy. */
export function newUpload(
  headers: IncomingHttpHeaders,
  { policy = ANYTHING, scope = '', mark, client }: ResumableRequest,
  isPart: boolean,
  limits: TransferLimits,
): Begin {
  const raw = String(headers['upload-metadata'] ?? '');
  let values: Record<string, string | null> = {};
  try {
    if (raw !== '') values = Metadata.parse(raw);
  } catch (error) {
    throw new ProblemError('bad_request', 'Upload-Metadata is malformed.', error);
  }
  const { name, type, group } = metadataOf(headers, values, limits);
  const refused = isPart ? undefined : typeProblem(type, policy);
  if (refused) throw refused;
  const now = Date.now();
  const { expiresAt } = expiryOf(headers, policy, now);
  const note: Note = {
    scope,
    metadata: raw,
    isPart,
    checkContent: policy.checkContent ?? false,
    maxBytes: Math.min(policy.maxFileBytes ?? limits.maxFileBytes, limits.maxFileBytes),
  };
  const ownGroup = policy.group ?? group;
  return {
    ...{
      name,
      type,
      note,
      owner: { name: disguised(client), maxUploads: limits.maxClientUploads },
    },
    ...(mark ? { once: mark } : {}),
    ...(ownGroup === undefined ? {} : { group: ownGroup }),
    ...(expiresAt === undefined ? {} : { ttlMs: expiresAt.getTime() - now }),
  };
}

/** An address is not written to the disk as it is. */
function disguised(client: string): string {
  return createHash('sha256').update(client).digest('base64url').slice(0, 22);
}
