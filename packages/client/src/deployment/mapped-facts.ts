import type { MappedFile } from '@stevedore/map';
import {
  decodeFields,
  type FileId,
  isTrunkId,
  parseFileId,
  sizeOfField,
} from '@stevedore/protocol';
import { formatKey, sliceIdOf } from '@stevedore/staging';
import type { FileFacts } from '../stored-file.js';

/** What the map's row of a merged file says of it, for readers. */

const DEFAULT_TYPE = 'application/octet-stream';

/** Which trunks may be joined with others: their files have no FastDFS id yet. */
export interface Joining {
  /** Shorter ones, */
  readonly thinBelowBytes: number;
  /** until they are so old. */
  readonly idMaxAgeMs: number;
  readonly now: () => number;
}

export function factsOf(
  key: Buffer,
  file: MappedFile,
  joining: Joining,
): FileFacts & { readonly key: string } {
  const { trunkFileId, offset, size, crc32, expiresAt } = file;
  const about = parsed(file.about);
  const { name = '', type = DEFAULT_TYPE, group, stagedAt = 0 } = about;
  const trunk = parseFileId(trunkFileId);
  const isTrunk = trunk !== undefined && isTrunkId(trunk);
  const isThin = isTrunk && mayBeJoined(trunk, joining);
  const sliceId = () => sliceIdOf({ name, size, crc32 }, trunkFileId, offset);
  const fileId = isThin ? undefined : isTrunk ? sliceId() : trunkFileId;
  return {
    key: formatKey(key),
    name,
    size,
    type,
    crc32,
    state: isThin ? 'packing' : 'merged',
    stagedAt: new Date(stagedAt),
    ...(group === undefined ? {} : { group }),
    ...(expiresAt === null ? {} : { expiresAt: new Date(expiresAt) }),
    ...(fileId === undefined ? {} : { fileId }),
  };
}

function mayBeJoined(trunk: FileId, { thinBelowBytes, idMaxAgeMs, now }: Joining): boolean {
  const { sizeField, createdAtSeconds } = decodeFields(trunk.base);
  return sizeOfField(sizeField) < thinBelowBytes && now() < createdAtSeconds * 1000 + idMaxAgeMs;
}

interface About {
  readonly name?: string;
  readonly type?: string;
  readonly group?: string;
  readonly stagedAt?: number;
}

function parsed(about: string): About {
  try {
    return JSON.parse(about) as About;
  } catch {
    return {};
  }
}
