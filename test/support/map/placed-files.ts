import { randomBytes } from 'node:crypto';
import type { PlacedFile } from '@stevedore/map';

/** What the tests of maps put into them. */

export const TRUNK = 'group1/M00/00/00/fwAAAWsDag6ASV9jAAAAD5pI2Zc168.merged';

export const instance = (): string => randomBytes(16).toString('hex');

/** A directory that has never been in the map. */
export const newcomer = (place = 'here') => ({
  ...{ instance: instance(), origin: undefined, url: undefined, place },
});

export function key(origin: number): Buffer {
  const bytes = randomBytes(16);
  bytes.writeUInt16BE(origin, 6);
  return bytes;
}

export function file(origin: number, offset = 0): PlacedFile {
  const about = JSON.stringify({ name: 'a "photo" ü \\x.jpg', type: 'image/jpeg' });
  return { key: key(origin), offset, size: 20_480, crc32: 0xfedcba98, about, expiresAt: null };
}
