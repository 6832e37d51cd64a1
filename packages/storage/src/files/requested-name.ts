import {
  type FileId,
  type FileName,
  MAX_NAME_BYTES,
  parseFileName,
  Status,
} from '@stevedore/protocol';
import { StatusError } from '@stevedore/wire';
import { isReservedName } from '../layout.js';

/**
 * The file that a request names. Nothing but store path, two directories and a
 * plain base name gets through, so a name cannot lead out of the store paths.
 */

const SHAPE = /^M[0-9A-F]{2}\/[0-9A-F]{2}\/[0-9A-F]{2}\/[^/]+$/;

/**
 * Status 22 for another group or a name without the form of one, status 2 for
 * one that no file here can have.
 */
export function requestedFile(request: FileName, group: string, storePathCount: number): FileId {
  if (request.group !== group) throw invalid(`this is not group ${request.group}`);
  if (request.name.length > MAX_NAME_BYTES) throw invalid('a name too long');
  // Files of the first FastDFS versions have no store path in their name.
  const name = request.name.startsWith('M') ? request.name : `M00/${request.name}`;
  if (!SHAPE.test(name)) throw invalid('a malformed name');
  if (Number.parseInt(name.slice(1, 3), 16) >= storePathCount) throw invalid('no such store path');
  const id = parseFileName(group, name);
  if (!id || isReservedName(id.base)) {
    throw new StatusError(Status.notFound, 'no file has such a name');
  }
  return id;
}

function invalid(message: string): StatusError {
  return new StatusError(Status.invalid, message);
}
