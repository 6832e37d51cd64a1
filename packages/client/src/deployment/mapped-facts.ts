import type { MappedFile } from '@stevedore/map';
import { isTrunkId, parseFileId } from '@stevedore/protocol';
import { formatKey, sliceIdOf } from '@stevedore/staging';
import type { FileFacts } from '../stored-file.js';

/** Converts the map's row of a merged file to the facts that readers get. */

const DEFAULT_TYPE = 'application/octet-stream';

export function factsOf(key: Buffer, file: MappedFile): FileFacts & { readonly key: string } {
  const { trunkFileId, isThin, offset, size, crc32, expiresAt } = file;
  const about = parsed(file.about);
  const { name = '', type = DEFAULT_TYPE, group, stagedAt = 0 } = about;
  const trunk = parseFileId(trunkFileId);
  const isTrunk = trunk !== undefined && isTrunkId(trunk);
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
