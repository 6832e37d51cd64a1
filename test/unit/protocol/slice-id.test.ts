import { isTrunkId, makeSliceId, parseFileId, parseSliceId } from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { fileIdVectors, utilVectors } from '../../support/vectors.js';

/** Base64 and byte order by hand: nothing here comes from the code under test. */
function hexToName(hex: string): string {
  return Buffer.from(hex, 'hex')
    .toString('base64')
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}

const SOURCE = '0a000107';
const TIME = '6b00b081';
const TRUNK_SIZE = '804c3b2a04000000';
const TRUNK_CRC = 'f00dcafe';
const OFFSET = '00fedcba';
const SLICE_SIZE = '8000000000004567';
const SLICE_CRC = '89abcdef';
const PATH = 'group1/M03/3F/A2/';

const trunkText = `${PATH}${hexToName(SOURCE + TIME + TRUNK_SIZE + TRUNK_CRC)}.merged`;
const slice = (extension: string): string =>
  PATH +
  hexToName(SOURCE + TIME + SLICE_SIZE + SLICE_CRC) +
  hexToName(TRUNK_SIZE + TRUNK_CRC + OFFSET) +
  extension;
const meaning = { offset: 0xfedcba, size: 0x4567, crc32: 0x89abcdef };

/** A parsed slice as plain text, so that two can be compared whole. */
function told(text: string): string | undefined {
  const parsed = parseSliceId(text);
  if (!parsed) return undefined;
  const { trunk, offset, size, crc32, extension } = parsed;
  return [trunk.group, trunk.name, offset, size, crc32, extension].join(' ');
}

describe('a slice id', () => {
  const trunk = parseFileId(trunkText)!;

  it('is made of the bytes that the design names', () => {
    expect(isTrunkId(trunk)).toBe(true);
    expect(makeSliceId(trunk, meaning, 'jpg')).toBe(slice('.jpg'));
    expect(makeSliceId(trunk, meaning, '')).toBe(slice(''));
  });

  it('gives back its trunk, place, size and CRC-32', () => {
    for (const extension of ['jpg', '', 'merged', 'tar.gz', 'x']) {
      const text = slice(extension === '' ? '' : `.${extension}`);
      expect(parseSliceId(text)).toEqual({ trunk, ...meaning, extension });
    }
  });

  it('holds at the edges of its trunk and is refused beyond', () => {
    const bytes = 0x04000000;
    for (const [offset, size, good] of [
      [0, 0, true],
      [bytes, 0, true],
      [0, bytes, true],
      [bytes - 1, 1, true],
      [bytes, 1, false],
      [bytes - 1, 2, false],
      [0xffff_ffff, 0xffff_ffff, false],
    ] as const) {
      const text = makeSliceId(trunk, { offset, size, crc32: 0 }, 'a');
      expect(parseSliceId(text) !== undefined, `${offset}+${size}`).toBe(good);
    }
  });

  it('means something else, or nothing, after a change of any one character', () => {
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./+= \0';
    let parsedToo = 0;
    for (const extension of ['.jpg', '', '.merged']) {
      const text = slice(extension);
      const original = told(text);
      for (let at = 0; at < text.length; at++) {
        for (const character of alphabet) {
          if (text[at] === character) continue;
          const changed = text.slice(0, at) + character + text.slice(at + 1);
          const now = told(changed);
          if (now !== undefined) parsedToo++;
          expect(now, changed).not.toBe(original);
        }
      }
    }
    // The check proves something only if many of the changes do parse.
    expect(parsedToo).toBeGreaterThan(5_000);
  });

  it('means something else, or nothing, after losing or gaining a character', () => {
    const text = slice('.jpg');
    for (let at = 0; at <= text.length; at++) {
      expect(told(text.slice(0, at) + text.slice(at + 1))).not.toBe(
        at < text.length ? told(text) : 0,
      );
      expect(told(`${text.slice(0, at)}A${text.slice(at)}`)).not.toBe(told(text));
    }
  });

  it('is the only text for its slice', () => {
    for (const text of [slice('.jpg'), slice('')]) {
      const parsed = parseSliceId(text)!;
      expect(makeSliceId(parsed.trunk, parsed, parsed.extension)).toBe(text);
    }
  });
});

describe('ids of FastDFS itself', () => {
  it('are never taken for slices or trunks', () => {
    for (const { file_id } of fileIdVectors()) {
      expect(parseSliceId(file_id), file_id).toBeUndefined();
      expect(isTrunkId(parseFileId(file_id)!), file_id).toBe(false);
    }
  });

  it('are not slices as slave names either', () => {
    for (const each of utilVectors('slave_name')) {
      if (each.result === 0) expect(parseSliceId(`group1/M00/${each.name}`)).toBeUndefined();
    }
  });

  it('are not slices with the longest prefix a slave of a trunk can have', () => {
    const stem = trunkText.slice(0, -'.merged'.length);
    for (const prefix of ['A'.repeat(16), 'A'.repeat(15), '-m', 'AAAAAAAAAAAAAA_x']) {
      expect(parseSliceId(`${stem}${prefix}.merged`)).toBeUndefined();
      expect(parseSliceId(`${stem}${prefix}`)).toBeUndefined();
    }
  });
});
