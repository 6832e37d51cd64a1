import {
  decodeHeader,
  encodeFrame,
  encodeReply,
  encodeRequestHead,
  type FrameHeader,
  HEADER_BYTES,
  ProtocolError,
  REPLY_COMMAND,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { type AnyCommand, commandOf, isPayloadCommand } from '../../support/commands.js';
import { bodyOf, type FrameVector, frameVectors } from '../../support/vectors.js';

const tracker = frameVectors('tracker');
const storage = frameVectors('storage');
const toTracker = frameVectors('storage-to-tracker');

/** Requests that C programs made wrong on purpose. */
const REFUSED = new Set(['storage.download.negative_offset']);

function isRefused(vector: FrameVector): boolean {
  return REFUSED.has(vector.op) || (vector.cmd === 102 && vector.status === 22);
}

function header(hex: string): FrameHeader {
  return decodeHeader(Buffer.from(hex, 'hex'));
}

function headOf(command: AnyCommand, body: Buffer): Buffer {
  return isPayloadCommand(command) ? body.subarray(0, command.headBytes(body)) : body;
}

/** What the C client printed after the call: `size=13 crc=..`, an address, or an id. */
function seen(vector: FrameVector): string {
  return vector.note.split('client saw: ')[1] ?? '';
}

describe('every recorded frame', () => {
  const all = [...tracker, ...storage, ...toTracker];

  it('is there to be compared', () => {
    expect(all.length).toBeGreaterThan(200);
    expect(new Set(all.map((vector) => vector.cmd)).size).toBe(15);
  });

  it.each(all.map((vector) => [`${vector.cluster} ${vector.op}`, vector] as const))(
    '%s decodes and encodes to the same bytes',
    (_, vector) => {
      const command = commandOf(vector.cmd);
      const request = Buffer.from(vector.request_hex, 'hex');
      const { bodyBytes, command: code, status: flags } = header(vector.request_hex);
      expect([code, bodyBytes]).toEqual([vector.cmd, request.length - HEADER_BYTES]);
      const body = bodyOf(vector.request_hex);
      if (isRefused(vector)) {
        expect(() => command.request.decode(body)).toThrow(ProtocolError);
        return;
      }
      const decoded = command.request.decode(headOf(command, body));
      if (isPayloadCommand(command)) {
        const head = encodeRequestHead(command, decoded);
        const payload = body.subarray(command.headBytes(body));
        expect(command.payloadBytes(decoded)).toBe(payload.length);
        expect(Buffer.concat([head, payload])).toEqual(request);
      } else {
        expect(encodeFrame(code, command.request.encode(decoded), flags)).toEqual(request);
      }
      if (vector.response_hex === null) return;
      const response = Buffer.from(vector.response_hex, 'hex');
      const reply = header(vector.response_hex);
      expect([reply.command, reply.status]).toEqual([REPLY_COMMAND, vector.status]);
      if (reply.status !== 0) return;
      const value = command.reply.decode(bodyOf(vector.response_hex));
      const width = response.length > HEADER_BYTES + 60 ? 'wide' : 'narrow';
      expect(encodeReply(0, command.reply.encode(value, width))).toEqual(response);
    },
  );
});

describe('decoded fields of', () => {
  const answered = (vectors: FrameVector[], ...codes: number[]): FrameVector[] =>
    vectors.filter((vector) => codes.includes(vector.cmd) && vector.status === 0);

  it('tracker queries are those that the C client saw', () => {
    const vectors = answered(tracker, 101, 102, 103, 104);
    expect(vectors.length).toBeGreaterThan(8);
    const lengths = new Set<number>();
    for (const vector of vectors) {
      const body = bodyOf(vector.response_hex!);
      lengths.add(body.length);
      const value = commandOf(vector.cmd).reply.decode(body) as Record<string, unknown>;
      const path = value.storePathIndex === undefined ? '' : ` path=${value.storePathIndex}`;
      expect(value.group).toBe('group1');
      expect(seen(vector).replace('group1 ', '')).toBe(`${value.address}:${value.port}${path}`);
    }
    expect([...lengths].sort()).toEqual([39, 40, 69, 70]);
  });

  it('uploads are size and extension of the op, and the id that the C client saw', () => {
    for (const vector of answered(storage, 11)) {
      const body = bodyOf(vector.request_hex);
      const request = commandOf(11).request.decode(body) as Record<string, unknown>;
      const id = seen(vector);
      const value = commandOf(11).reply.decode(bodyOf(vector.response_hex!));
      const { group, name } = value as { group: string; name: string };
      expect(`${group}/${name}`).toBe(id);
      expect(request.size).toBe(body.length - 15);
      expect(id.endsWith(String(request.extension))).toBe(true);
      expect(request.storePathIndex).toBe(vector.op.endsWith('path_index_ff') ? 255 : 0);
    }
  });

  it('file infos are those that the C client saw, the CRC-32 unsigned', () => {
    const vectors = answered(storage, 22);
    const lengths = new Set<number>();
    for (const vector of vectors) {
      const body = bodyOf(vector.response_hex!);
      lengths.add(body.length);
      const info = commandOf(22).reply.decode(body) as Record<string, unknown>;
      expect(
        `size=${info.size} ts=${info.mtimeSeconds} crc=${info.crc32} ip=${info.sourceAddress}`,
      ).toBe(seen(vector));
    }
    expect([...lengths].sort()).toEqual([40, 70]);
  });

  it('downloads are the range of the op, and as many bytes as the C client saw', () => {
    const ranges = new Map(
      answered(storage, 14).map((vector) => {
        const body = bodyOf(vector.request_hex);
        const request = commandOf(14).request.decode(body) as Record<string, unknown>;
        expect(`bytes=${bodyOf(vector.response_hex!).length}`).toBe(seen(vector));
        return [vector.op, [request.offset, request.length]];
      }),
    );
    expect(ranges.get('storage.download.whole')).toEqual([0, 0]);
    expect(ranges.get('storage.download.offset_only')).toEqual([6, 0]);
    expect(ranges.get('storage.download.offset_and_bytes')).toEqual([6, 4]);
    expect(ranges.get('storage.download.bytes_beyond_end')).toEqual([6, 1000]);
  });

  it('joins are those of the starting storages', () => {
    const joins = answered(toTracker, 81).map((vector) => ({
      cluster: vector.cluster,
      op: vector.op,
      join: commandOf(81).request.decode(bodyOf(vector.request_hex)),
      reply: commandOf(81).reply.decode(bodyOf(vector.response_hex!)),
    }));
    expect(joins.find((each) => each.op === 'first.127.0.17.3.STORAGE_JOIN')).toEqual({
      cluster: 'plain',
      op: 'first.127.0.17.3.STORAGE_JOIN',
      join: {
        group: 'group1',
        port: 24000,
        storePathCount: 1,
        subdirectoriesPerPath: 256,
        uploadPriority: 10,
        joinedAtSeconds: 0x6b00b065,
        startedAtSeconds: 0x6b00b065,
        version: '6.16.1',
        initial: true,
        status: 0,
        storageId: '',
        trackerAddress: '127.0.17.2',
        trackers: ['127.0.17.2:24122'],
      },
      reply: { status: 0, sourceId: '' },
    });
    expect(joins.find((each) => each.op === 'first.127.0.17.8.STORAGE_JOIN')?.join).toMatchObject({
      storageId: '100002',
      storePathCount: 2,
      subdirectoriesPerPath: 64,
    });
    expect(joins.find((each) => each.op === 'rejoin.127.0.17.3.STORAGE_JOIN')).toMatchObject({
      join: { initial: false },
      reply: { status: 6 },
    });
  });
});

describe('numbers that C clients get wrong', () => {
  it('are exact above 4 GiB and refused above 2^53', () => {
    const head = (size: bigint): Buffer => {
      const bytes = Buffer.alloc(15);
      bytes.writeBigInt64BE(size, 1);
      return bytes;
    };
    const decode = (size: bigint) =>
      (commandOf(11).request.decode(head(size)) as { size: number }).size;
    expect(decode(2n ** 32n + 5n)).toBe(2 ** 32 + 5);
    expect(decode(2n ** 53n - 1n)).toBe(2 ** 53 - 1);
    expect(() => decode(2n ** 53n)).toThrow(ProtocolError);
    expect(() => decode(-1n)).toThrow(ProtocolError);
  });

  it('name a port from 1 to 65,535 only', () => {
    for (const [port, good] of [
      [0n, false],
      [1n, true],
      [65_535n, true],
      [65_536n, false],
    ] as const) {
      const body = Buffer.alloc(39);
      body.write('group1', 0, 'latin1');
      body.write('10.0.0.1', 16, 'latin1');
      body.writeBigInt64BE(port, 31);
      const decode = () => commandOf(102).reply.decode(body);
      if (good) expect(decode()).toMatchObject({ port: Number(port) });
      else expect(decode).toThrow(ProtocolError);
    }
  });

  it('cut text at the first NUL and use a full field whole', () => {
    const body = Buffer.alloc(40, 0x7a);
    body.write('group1\0garbage!!', 0, 'latin1');
    body.write('100.100.100.100', 16, 'latin1');
    body.writeBigInt64BE(22122n, 31);
    expect(commandOf(101).reply.decode(body)).toMatchObject({
      group: 'group1',
      address: '100.100.100.100',
    });
  });
});
