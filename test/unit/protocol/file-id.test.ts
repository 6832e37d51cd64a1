import {
  decodeFields,
  encodeFields,
  encodePath,
  encodeTail,
  extensionOf,
  fileKind,
  formatFileId,
  normalSizeField,
  parseFileId,
  sizeOfField,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { type FileIdVector, fileIdVectors, utilVectors } from '../../support/vectors.js';

const ids = fileIdVectors();

/** The original's rule: two slaves here are short enough to look like something else. */
function kindByRule(decoded: FileIdVector['decoded']): string {
  if (decoded.appender_flag_bit58) return 'appender';
  if (decoded.is_slave_by_length) return 'slave';
  return decoded.trunk_flag_bit59 ? 'slot' : 'normal';
}

describe('ids made by FastDFS', () => {
  it('are all here', () => {
    expect(ids.length).toBe(61);
  });

  it.each(ids.map((vector) => [vector.file_id, vector] as const))('%s', (text, vector) => {
    const { decoded } = vector;
    const id = parseFileId(text)!;
    expect(id).toMatchObject({
      group: decoded.group,
      name: decoded.remote_filename,
      storePathIndex: decoded.store_path_index,
    });
    expect(id.directory.map((part) => Number.parseInt(part, 16))).toEqual([
      decoded.sub_path_high,
      decoded.sub_path_low,
    ]);
    expect(formatFileId(id)).toBe(text);
    expect(
      encodePath(id.storePathIndex, decoded.sub_path_high, decoded.sub_path_low) + id.base,
    ).toBe(id.name);
    const fields = decodeFields(id.base);
    expect(fields).toEqual({
      source: decoded.source_is_id ? String(decoded.source_id) : decoded.source_ip,
      createdAtSeconds: decoded.create_timestamp,
      sizeField: BigInt(`0x${decoded.size_field_hex}`),
      crc32: decoded.crc32,
    });
    expect(encodeFields(fields)).toBe(decoded.base64_27);
    expect(sizeOfField(fields.sizeField)).toBe(decoded.size_in_name);
    expect(fileKind(id)).toBe(kindByRule(decoded));
    if (kindByRule(decoded) === 'normal' && vector.kind !== 'slave') {
      expect(normalSizeField(decoded.size_in_name, decoded.random_bits_32_54 ?? 0)).toBe(
        fields.sizeField,
      );
    }
    if (vector.kind === 'normal' || vector.kind === 'trunk') {
      expect(vector.server_query_file_info).toMatchObject({
        size: decoded.size_in_name,
        crc32_unsigned: decoded.crc32,
      });
    }
  });
});

describe('texts that are no ids', () => {
  const good = ids[0]!.file_id;
  const bad = [
    '',
    'group1',
    good.slice('group1'.length),
    good.replace('group1', 'group_1'),
    good.replace('group1', 'a'.repeat(17)),
    good.replace('M00', 'M0g'),
    good.replace('M00', 'm00'),
    good.replace('/00/00/', '/00/0a/'),
    good.replace('/00/00/', '/00/'),
    good.replace('/00/00/', '/../00/'),
    good.replace('fwARA', 'fw/RA'),
    good.replace('fwARA', 'fw.RA'),
    good.replace('fwARA', 'fw+RA'),
    `${good}\0`,
    `${good}\n`,
    `${good} `,
    `/${good}`,
    `${good}/x`,
    good + 'a'.repeat(100),
    good.slice(0, 40),
  ];
  it.each(bad.map((text) => [text]))('%j', (text) => {
    expect(parseFileId(text)).toBeUndefined();
  });
});

it('size fields keep sizes exact on both sides of 4 GiB', () => {
  for (const size of [0, 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 5, 2 ** 40 + 1]) {
    expect(sizeOfField(normalSizeField(size, 0x7fffff))).toBe(size);
  }
  expect(normalSizeField(2 ** 32 + 5, 0x7fffff)).toBe(2n ** 32n + 5n);
});

describe('tails and extensions', () => {
  it('are always 7 characters', () => {
    expect(encodeTail('txt', '1234567')).toBe('123.txt');
    expect(encodeTail('merged', '1234567')).toBe('.merged');
    expect(encodeTail('', '1234567')).toBe('1234567');
  });

  it('agree with the C function on plain names', () => {
    const plain = utilVectors('ext_name').filter((each) => each.ext_one === each.ext_two);
    expect(plain.length).toBeGreaterThan(6);
    for (const each of plain) {
      expect(extensionOf(String(each.file))).toBe(each.ext_one ?? '');
    }
  });
});
