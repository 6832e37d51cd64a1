import { type FileId, parseFileName } from '@stevedore/protocol';
import { DELETED_SUFFIX, METADATA_SUFFIX } from '../layout.js';

/** What a name in the log, or in another member's request, stands for. */
export interface LoggedName {
  /** The file itself. */
  readonly id: FileId;
  /** Which part of it. */
  readonly part: 'file' | 'metadata' | 'deleted slices';
}

/** Undefined for what is no name of a file in one of the store paths. */
export function parseLoggedName(
  group: string,
  name: string,
  storePathCount: number,
): LoggedName | undefined {
  const [bare, part] = name.endsWith(METADATA_SUFFIX)
    ? ([name.slice(0, -METADATA_SUFFIX.length), 'metadata'] as const)
    : name.endsWith(DELETED_SUFFIX)
      ? ([name.slice(0, -DELETED_SUFFIX.length), 'deleted slices'] as const)
      : ([name, 'file'] as const);
  const id = parseFileName(group, bare);
  if (!id || id.storePathIndex >= storePathCount) return undefined;
  // A name that ends so twice belongs to nothing.
  if (bare.endsWith(METADATA_SUFFIX) || bare.endsWith(DELETED_SUFFIX)) return undefined;
  return { id, part };
}
