import type { MappedFile } from '@stevedore/map';
import { isTrunkId, parseFileId } from '@stevedore/protocol';
import { sliceIdOf } from '@stevedore/staging';
import type { FileFacts } from '../stored-file.js';

/** Converts the map's row of a merged file to the facts that readers get. */

const DEFAULT_TYPE = 'application/octet-stream';

export function factsOf(key: string, file: MappedFile): FileFacts & { readonly key: string } {
  const { isThin, size, crc32, expiresAt } = file;
  const about = parsed(file.about);
  const { name = '', type = DEFAULT_TYPE, group, stagedAt = 0, pictureOf } = about;
  return {
    key,
    name,
    size,
    type,
    crc32,
    state: isThin ? 'packing' : 'merged',
    stagedAt: new Date(stagedAt),
    ...(group === undefined ? {} : { group }),
    ...(expiresAt === null ? {} : { expiresAt: new Date(expiresAt) }),
    ...(pictureOf === undefined ? {} : { pictureOf }),
    // Only its own server knows by when.
    ...(isThin ? { idPending: { reason: 'joining' } } : {}),
  };
}

/** Undefined while the file is in a trunk that does not stay. */
export function fileIdOf({ name }: FileFacts, file: MappedFile): string | undefined {
  const { trunkFileId, isThin, offset, size, crc32 } = file;
  if (isThin) return undefined;
  const trunk = parseFileId(trunkFileId);
  const isTrunk = trunk !== undefined && isTrunkId(trunk);
  return isTrunk ? sliceIdOf({ name, size, crc32 }, trunkFileId, offset) : trunkFileId;
}

interface About {
  readonly name?: string;
  readonly type?: string;
  readonly group?: string;
  readonly stagedAt?: number;
  readonly pictureOf?: string;
}

function parsed(about: string): About {
  try {
    return JSON.parse(about) as About;
  } catch {
    return {};
  }
}
