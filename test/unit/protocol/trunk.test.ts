import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 as zlibCrc32 } from 'node:zlib';
import {
  encodeEnd,
  endBytes,
  groupOfComment,
  localHeaderBytes,
  MAX_ENTRIES,
  memberBytes,
  ProtocolError,
  parseTrunkDirectory,
  parseTrunkEnd,
  SliceTable,
  TAIL_BYTES,
  type TrunkMember,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { execFileSync } from '../../support/child-process.js';
import { Random } from '../../support/random.js';
import { directoryEntryOf, localHeaderOf } from '../../support/storage/trunks.js';
import { temporaryFolder } from '../../support/temporary.js';

interface File extends TrunkMember {
  readonly content: Buffer;
}

const COMMENT = '{"stevedore":1,"taskId":"täsk-1"}';

function file(name: string, content: Buffer, comment: string): File {
  const modifiedAt = new Date('2026-11-20T20:43:52Z');
  return { name, content, comment, size: content.length, crc32: zlibCrc32(content), modifiedAt };
}

const FILES: readonly File[] = [
  file('AAAAAAAAAAAAAAAAAAAAAA.txt', Buffer.from('hello trunk\n'), '{"name":"a.txt"}'),
  file('BBBBBBBBBBBBBBBBBBBBBB', Buffer.alloc(0), '{"name":"empty"}'),
  file(
    'CCCCCCCCCCCCCCCCCCCCCC.bin',
    Buffer.from(Array.from({ length: 70_000 }, (_, at) => at * 131)),
    '',
  ),
  file(
    'DDDDDDDDDDDDDDDDDDDDDD.jpg',
    Buffer.from('PK\x05\x06PK\x01\x02'),
    '{"name":"Übersicht 写真.jpg","group":"gruppe-ß"}',
  ),
];

function buildTrunk(files: readonly File[], comment: string): { trunk: Buffer; offsets: number[] } {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  const offsets: number[] = [];
  let at = 0;
  const add = (bytes: Buffer): void => {
    parts.push(bytes);
    at += bytes.length;
  };
  for (const each of files) {
    directory.push(directoryEntryOf(each, at));
    add(localHeaderOf(each));
    offsets.push(at);
    add(each.content);
  }
  const entries = Buffer.concat(directory);
  return {
    trunk: Buffer.concat([...parts, entries, encodeEnd(files.length, at, entries.length, comment)]),
    offsets,
  };
}

const READ_ZIP = `
import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    print(json.dumps({
        "bad": z.testzip(),
        "comment": z.comment.decode("utf-8"),
        "entries": [{
            "name": i.filename, "crc32": i.CRC, "size": i.file_size, "stored": i.compress_type == 0,
            "comment": i.comment.decode("utf-8"), "when": list(i.date_time), "hex": z.read(i).hex(),
            "mode": i.external_attr >> 16, "utf8": bool(i.flag_bits & 0x800),
        } for i in z.infolist()],
    }))
`;

interface ZipListing {
  readonly bad: string | null;
  readonly comment: string;
  readonly entries: readonly Record<string, unknown>[];
}

function listZip(trunk: Buffer): ZipListing {
  const path = join(temporaryFolder(), 'trunk.zip');
  writeFileSync(path, trunk);
  return JSON.parse(execFileSync('python3', ['-c', READ_ZIP, path], { encoding: 'utf8' }));
}

function parse(trunk: Buffer) {
  const end = parseTrunkEnd(trunk.subarray(Math.max(0, trunk.length - TAIL_BYTES)), trunk.length);
  const { directoryOffset, directoryBytes } = end;
  const bytes = trunk.subarray(directoryOffset, directoryOffset + directoryBytes);
  return { end, entries: parseTrunkDirectory(bytes, end) };
}

describe('a trunk', () => {
  const { trunk, offsets } = buildTrunk(FILES, COMMENT);

  it('is a ZIP that other programs read whole', () => {
    const listing = listZip(trunk);
    expect(listing.bad).toBeNull();
    expect(listing.comment).toBe(COMMENT);
    expect(listing.entries).toEqual(
      FILES.map((each) => ({
        name: each.name,
        crc32: each.crc32,
        size: each.size,
        stored: true,
        comment: each.comment,
        when: [2026, 11, 20, 20, 43, 52],
        hex: each.content.toString('hex'),
        mode: 0o100644,
        utf8: true,
      })),
    );
  });

  it('may have no members', () => {
    const empty = buildTrunk([], COMMENT).trunk;
    expect(listZip(empty)).toEqual({ bad: null, comment: COMMENT, entries: [] });
    expect(parse(empty).entries).toEqual([]);
  });

  it('has the size that its parts announce', () => {
    const sum = FILES.reduce(
      (total, each) => {
        const commentBytes = Buffer.byteLength(each.comment);
        return total + memberBytes(Buffer.byteLength(each.name), commentBytes, each.size);
      },
      endBytes(Buffer.byteLength(COMMENT)),
    );
    expect(trunk.length).toBe(sum);
    expect(offsets[0]).toBe(localHeaderBytes(Buffer.byteLength(FILES[0]!.name)));
  });

  it('tells place, size, CRC-32 and comment of its members', () => {
    const { end, entries } = parse(trunk);
    expect(end).toMatchObject({ entries: FILES.length, comment: COMMENT });
    expect(entries).toEqual(
      FILES.map(({ name, size, crc32, comment }, index) => ({
        name,
        size,
        crc32,
        comment,
        offset: offsets[index],
      })),
    );
    for (const entry of entries) {
      const content = trunk.subarray(entry.offset, entry.offset + entry.size);
      expect(zlibCrc32(content)).toBe(entry.crc32);
    }
  });

  it('refuses more entries than the format holds', () => {
    expect(() => encodeEnd(MAX_ENTRIES + 1, 0, 0, '')).toThrow(ProtocolError);
    expect(() => encodeEnd(MAX_ENTRIES, 0, 0, '')).not.toThrow();
    expect(() => encodeEnd(1, 0xffff_fff0, 0xff, '')).toThrow(ProtocolError);
  });

  it('clamps years that MS-DOS time does not have', () => {
    for (const [when, year] of [
      ['1970-01-01', 1980],
      ['2500-01-01', 2107],
    ] as const) {
      const old = { ...FILES[0]!, modifiedAt: new Date(when) };
      expect((listZip(buildTrunk([old], '').trunk).entries[0]!.when as number[])[0]).toBe(year);
    }
  });
});

describe('a damaged trunk', () => {
  const { trunk } = buildTrunk(FILES, COMMENT);
  const original = JSON.stringify(parse(trunk));

  it('is refused when it is cut anywhere', () => {
    for (let length = 0; length < trunk.length; length += length < trunk.length - 600 ? 997 : 1) {
      expect(() => parse(trunk.subarray(0, length)), String(length)).toThrow(ProtocolError);
    }
  });

  it('is refused when bytes follow it', () => {
    expect(() => parse(Buffer.concat([trunk, Buffer.from([0])]))).toThrow(ProtocolError);
  });

  it('yields a ProtocolError or another reading, never another exception', () => {
    const random = new Random(20_261_120);
    const { end } = parse(trunk);
    let refused = 0;
    for (let round = 0; round < 5_000; round++) {
      const copy = Buffer.from(trunk);
      const at = end.directoryOffset + random.below(copy.length - end.directoryOffset);
      copy[at] = random.below(256);
      try {
        const now = JSON.stringify(parse(copy));
        if (copy[at] === trunk[at]) expect(now).toBe(original);
      } catch (error) {
        expect(error).toBeInstanceOf(ProtocolError);
        refused++;
      }
    }
    expect(refused).toBeGreaterThan(500);
  });
});

describe('a slice table', () => {
  const entries = parse(buildTrunk(FILES, COMMENT).trunk).entries;
  const table = new SliceTable([...entries].reverse());

  it('knows every entry', () => {
    for (const entry of entries) expect(table.has(entry)).toBe(true);
    expect(table.byteLength).toBe(13 * entries.length);
  });

  it('knows which entries lie side by side as members of one group', () => {
    const groups = ['a', 'a', undefined, undefined, 'b', 'b', 'b', 'a'];
    const grouped = groups.map((group, index) => ({
      offset: 100 + index * 1000,
      size: 900,
      crc32: index,
      group,
    }));
    const near = (index: number, maxBytes = 1e6): number[] => {
      const around = new SliceTable(grouped).groupAround(100 + index * 1000, maxBytes)!;
      expect(around.members[around.asked]!.crc32).toBe(index);
      return around.members.map((member) => member.crc32);
    };
    expect(groups.map((_, index) => near(index))).toEqual([
      [0, 1],
      [0, 1],
      [2],
      [3],
      [4, 5, 6],
      [4, 5, 6],
      [4, 5, 6],
      [7],
    ]);
    expect(near(4, 1900)).toEqual([4, 5]);
    expect(near(6, 1899)).toEqual([6]);
    expect(new SliceTable(grouped).groupAround(101, 1e6)).toBeUndefined();
  });

  it('reads a group from the comment of an entry, whatever that is', () => {
    expect(groupOfComment('{"name":"a","group":"g","stagedAt":1}')).toBe('g');
    for (const comment of [
      '',
      '{}',
      '{"name":"x"}',
      '{"group":7}',
      '{"group"',
      '"group"',
      'null',
    ]) {
      expect(groupOfComment(comment)).toBeUndefined();
    }
  });

  it('knows nothing that differs in offset, size or CRC-32', () => {
    for (const entry of entries) {
      expect(table.has({ ...entry, offset: entry.offset + 1 })).toBe(false);
      expect(table.has({ ...entry, size: entry.size + 1 })).toBe(false);
      expect(table.has({ ...entry, crc32: (entry.crc32 ^ 1) >>> 0 })).toBe(false);
    }
    expect(new SliceTable([]).has(entries[0]!)).toBe(false);
  });
});
