import type { FileRow } from './rows.js';

/**
 * The comment of a file's directory entry: what its record says of it, staging time and former
 * places.
 */
export function aboutOf(
  row: Pick<FileRow, 'name' | 'type' | 'group' | 'stagedAt' | 'was'> &
    Partial<Pick<FileRow, 'expiresAt' | 'once' | 'pictureOf'>>,
): string {
  const { name, type, group, stagedAt, was, expiresAt, once, pictureOf } = row;
  let about = `{"name":${JSON.stringify(name)},"type":${JSON.stringify(type)}`;
  if (group !== undefined) about += `,"group":${JSON.stringify(group)}`;
  about += `,"stagedAt":${stagedAt}`;
  if (expiresAt !== undefined) about += `,"expires":${expiresAt}`;
  if (once !== undefined) about += `,"once":"${once}"`;
  if (pictureOf) about += `,"pictureOf":"${pictureOf.toString('base64url')}"`;
  if (was.length > 0) about += `,"was":${JSON.stringify(was)}`;
  return `${about}}`;
}
