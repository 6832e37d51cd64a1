import { crc32 } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import {
  decodeRecordHeader,
  decodeSegmentHeader,
  encodeSegmentHeader,
  isRecordHeadIntact,
  mostHeadBytes,
  type NewRecord,
  writeRecordHead,
} from '../../../../packages/staging/dist/container/record.js';

const RECORD = {
  type: 1,
  key: Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex'),
  meta: { name: 'ü.txt', type: 'text/plain' },
  body: [Buffer.from('hello')],
  bodyBytes: 5,
  size: 5,
  time: 1_700_000_000_123,
  crc32: crc32('hello'),
} as const;

function encodeRecordHead(record: NewRecord, segment: number): Buffer {
  const meta = JSON.stringify(record.meta);
  const target = Buffer.alloc(1 + mostHeadBytes(meta));
  return target.subarray(1, 1 + writeRecordHead(target, 1, record, meta, segment));
}

describe('container records', () => {
  test('a record has the bytes that FORMAT.md draws', () => {
    const meta = Buffer.from('{"name":"ü.txt","type":"text/plain"}');
    const expected = Buffer.alloc(60 + meta.length);
    expected.write('SVR1', 0, 'latin1');
    expected[4] = 1;
    expected.writeUInt16LE(meta.length, 6);
    RECORD.key.copy(expected, 8);
    expected.writeBigUInt64LE(5n, 24);
    expected.writeBigUInt64LE(5n, 32);
    expected.writeBigUInt64LE(1_700_000_000_123n, 40);
    expected.writeUInt32LE(0x3610a686, 48); // the well-known CRC-32 of "hello"
    expected.writeUInt32LE(77, 52);
    meta.copy(expected, 60);
    const checked = Buffer.concat([expected.subarray(0, 56), meta]);
    expected.writeUInt32LE(crc32(checked), 56);
    expect(encodeRecordHead(RECORD, 77).toString('hex')).toBe(expected.toString('hex'));
  });

  test('a segment header has the bytes that FORMAT.md draws', () => {
    const expected = Buffer.alloc(32);
    expected.write('STVDSEG1', 0, 'latin1');
    expected.writeUInt32LE(7, 8);
    expected.writeUInt16LE(0xabcd, 12);
    expected.writeBigUInt64LE(1_700_000_000_123n, 16);
    expected.writeUInt32LE(67_108_864, 24);
    expected.writeUInt32LE(crc32(expected.subarray(0, 28)), 28);
    const header = {
      segment: 7,
      origin: 0xabcd,
      begunAt: 1_700_000_000_123,
      previousBytes: 67_108_864,
    };
    expect(encodeSegmentHeader(header).toString('hex')).toBe(expected.toString('hex'));
    expect(decodeSegmentHeader(expected)).toEqual(header);
    expected.writeUInt32LE(0, 24);
    expect(decodeSegmentHeader(expected)).toBeUndefined();
  });

  test('a header that lost any of its bits is refused', () => {
    const head = encodeRecordHead(RECORD, 77);
    expect(decodeRecordHeader(head, 77)).toMatchObject({ type: 1, bodyBytes: 5, size: 5 });
    expect(isRecordHeadIntact(head)).toBe(true);
    for (let at = 0; at < head.length; at++) {
      const damaged = Buffer.from(head);
      damaged[at]! ^= 1 << (at % 8);
      const accepted = decodeRecordHeader(damaged, 77) && isRecordHeadIntact(damaged);
      expect(accepted || false, `byte ${at}`).toBe(false);
    }
  });

  test('a record of another segment is refused', () => {
    expect(decodeRecordHeader(encodeRecordHead(RECORD, 76), 77)).toBeUndefined();
  });
});
