import type { FileRow } from './rows.js';

/**
 * The comment of a file's directory entry: name, type, group, staging time, expiry and former
 * places.
 */
export function aboutOf(
  row: Pick<FileRow, 'name' | 'type' | 'group' | 'stagedAt' | 'was'> &
    Partial<Pick<FileRow, 'expiresAt'>>,
): string {
  const { name, type, group, stagedAt, was, expiresAt } = row;
  let about = `{"name":${JSON.stringify(name)},"type":${JSON.stringify(type)}`;
  if (group !== undefined) about += `,"group":${JSON.stringify(group)}`;
  about += `,"stagedAt":${stagedAt}`;
  if (expiresAt !== undefined) about += `,"expires":${expiresAt}`;
  if (was.length > 0) about += `,"was":${JSON.stringify(was)}`;
  return `${about}}`;
}
