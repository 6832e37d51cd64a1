import { join } from 'node:path';
import { type Disk, readSmallFile, replaceFile } from '@stevedore/disk';
import { isIoName } from '@stevedore/protocol';
import { type Environment, randomName } from '../environment.js';
import { StartError } from '../errors.js';
import { IDENTITY_FILE, IDENTITY_VERSION } from './constants.js';

/**
 * Who an I/O server is: drawn once and kept with its parts, so that records find them
 * wherever the server is moved to. A damaged identity is no reason to draw another
 * one: nobody would find the parts again.
 */
export async function ownId(
  disk: Disk,
  directory: string,
  environment: Environment,
): Promise<string> {
  const path = join(directory, IDENTITY_FILE);
  const kept = await readSmallFile(disk, path);
  if (kept) return idIn(kept, path);
  const id = randomName(environment);
  await replaceFile(
    disk,
    directory,
    IDENTITY_FILE,
    `${JSON.stringify({ version: IDENTITY_VERSION, id })}\n`,
  );
  return id;
}

function idIn(bytes: Buffer, path: string): string {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString());
  } catch {
    value = undefined;
  }
  if (typeof value === 'object' && value !== null && 'version' in value && 'id' in value) {
    const { version, id } = value;
    if (version === IDENTITY_VERSION && typeof id === 'string' && isIoName(id)) return id;
  }
  throw new StartError(
    'ERR_IO_IDENTITY',
    `${path} does not say who this I/O server is. Put back {"version":1,"id":"<16 hexadecimal digits>"} with the id that the trackers list, or start in an empty directory.`,
  );
}
