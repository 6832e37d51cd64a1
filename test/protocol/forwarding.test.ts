import {
  forwardReport,
  guestLease,
  type LeaseRequest,
  MAX_LEASE_MS,
  MAX_LEASED_METADATA_BYTES,
  ProtocolError,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';

/** The bytes of leases and forwards, put together by hand. */

const field = (text: string, width: number): Buffer => {
  const bytes = Buffer.alloc(width);
  bytes.write(text, 'latin1');
  return bytes;
};
const i64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(value));
  return bytes;
};
const named = (text: string): Buffer =>
  Buffer.concat([Buffer.from([text.length]), Buffer.from(text)]);

const NAME = `M00/00/00/${'a'.repeat(27)}123.txt`;
const GUEST = `M00/00/00/${'a'.repeat(27)}g0123456789ab.moved`;
const FILE = {
  name: NAME,
  guest: GUEST,
  size: 40,
  mtimeSeconds: 1_700_000_000,
  crc32: 0xdeadbeef,
  sourceAddress: '10.0.0.1',
  metadata: Buffer.from('k\x02v'),
};
const REQUEST: LeaseRequest = {
  homeGroup: 'group1',
  homeId: '10.0.0.1',
  session: '0123456789abcdef',
  echo: 77,
  leaseMs: 1500,
  revoked: [NAME],
  granted: [FILE, { ...FILE, metadata: undefined }],
};
const fileBytes = (metadata: Buffer | undefined): Buffer[] => [
  named(NAME),
  named(GUEST),
  i64(40),
  i64(1_700_000_000),
  i64(0xdeadbeef),
  field('10.0.0.1', 45),
  i64(metadata?.length ?? -1),
  metadata ?? Buffer.alloc(0),
];
const head = (leaseMs: number, granted: number): Buffer[] => [
  field('group1', 16),
  field('10.0.0.1', 16),
  Buffer.from('0123456789abcdef', 'hex'),
  i64(77),
  i64(leaseMs),
  i64(1),
  i64(granted),
  named(NAME),
];

describe('GUEST_LEASE', () => {
  it('has these bytes', () => {
    const bytes = Buffer.concat([
      ...head(1500, 2),
      ...fileBytes(FILE.metadata),
      ...fileBytes(undefined),
    ]);
    expect(guestLease.request.encode(REQUEST)).toEqual(bytes);
    expect(guestLease.request.decode(bytes)).toEqual(REQUEST);
    const reply = { isKnown: true, clock: 5, refused: [1, 3] };
    const replyBytes = Buffer.concat([Buffer.from([1]), i64(5), i64(1), i64(3)]);
    expect(guestLease.reply.encode(reply)).toEqual(replyBytes);
    expect(guestLease.reply.decode(replyBytes)).toEqual(reply);
  });

  it('is refused if it is too long a lease, cut off, too long, or has too much metadata', () => {
    const whole = guestLease.request.encode(REQUEST);
    const long = { ...FILE, metadata: Buffer.alloc(MAX_LEASED_METADATA_BYTES + 1) };
    for (const bytes of [
      Buffer.concat([...head(MAX_LEASE_MS + 1, 0)]),
      whole.subarray(0, -1),
      Buffer.concat([whole, Buffer.from([0])]),
      guestLease.request.encode({ ...REQUEST, granted: [long] }),
      Buffer.concat([...head(1, 2 ** 40)]),
    ]) {
      expect(() => guestLease.request.decode(bytes)).toThrow(ProtocolError);
    }
  });
});

describe('FORWARD_REPORT', () => {
  it('has these bytes', () => {
    const report = {
      group: 'group1',
      id: '10.0.0.1',
      port: 23_000,
      begins: true,
      forwards: [
        { name: NAME, target: { group: 'group2', id: '10.0.0.2' } },
        { name: GUEST, target: undefined },
      ],
    };
    const bytes = Buffer.concat([
      field('group1', 16),
      field('10.0.0.1', 16),
      i64(23_000),
      Buffer.from([1]),
      named(NAME),
      field('group2', 16),
      field('10.0.0.2', 16),
      named(GUEST),
      Buffer.alloc(32),
    ]);
    expect(forwardReport.request.encode(report)).toEqual(bytes);
    expect(forwardReport.request.decode(bytes)).toEqual(report);
    expect(() => forwardReport.request.decode(bytes.subarray(0, -1))).toThrow(ProtocolError);
  });
});
