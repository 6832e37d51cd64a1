import { strict as assert } from 'node:assert';
import { posix } from 'node:path';
import { crc32 } from 'node:zlib';
import {
  decodeFields,
  type FileId,
  fileKind,
  parseFileName,
  sizeOfField,
} from '@stevedore/protocol';
import type { Reads } from '../subject.js';
import type { StorageHost } from './host.js';
import type { Entry, Version } from './ledger.js';

/** What a storage holds, against what its clients were told. */

export async function checkFiles(host: StorageHost, reads: Reads, settles: boolean): Promise<void> {
  for (const entry of host.ledger.entries()) {
    if (!entry.file) continue;
    const version = await host.look(entry.file);
    if (!version) assert.equal(reads, 'may fail', `${entry.file.name} cannot be read`);
    else host.ledger.found(entry.id, version, settles);
    await checkSlices(host, entry, version, reads, settles);
  }
}

async function checkSlices(
  host: StorageHost,
  trunk: Entry,
  version: Version | undefined,
  reads: Reads,
  settles: boolean,
): Promise<void> {
  for (const [index, { bytes, possible }] of trunk.slices.entries()) {
    const slice = await host.read(host.sliceName(trunk, index));
    if (!slice) {
      assert.equal(reads, 'may fail', `slice ${index} of ${trunk.id} cannot be read`);
      continue;
    }
    const isThere = slice.bytes !== undefined;
    if (isThere) assert.ok(slice.bytes.equals(bytes), `slice ${index} of ${trunk.id} differs`);
    if (!version) continue;
    if (!version.bytes) assert.ok(!isThere, `slice ${index} of ${trunk.id} outlives its trunk`);
    else {
      const what = isThere ? 'is back' : 'is gone';
      assert.ok(possible.includes(isThere), `slice ${index} of ${trunk.id} ${what}`);
      if (settles) host.ledger.setSlice(trunk.id, index, [isThere]);
    }
  }
}

const PLACE = /^\/data\/([0-9A-F]{2})\/([0-9A-F]{2})\/(.+)$/;
/** Files of the storage itself that are always there. */
const OWN = /^\/data\/(\.stevedore-[a-z-]+(\.json)?|sync\/.+)$/;

/**
 * Between requests of which none has failed: each file on the disk is one that a
 * client knows, or the whole of one that no client was told of; metadata and lists of
 * deleted slices have their file; nothing else is there.
 */
export function checkDisk(host: StorageHost): void {
  const contents = host.disk.contents();
  const places = new Set(contents.map(([place]) => place));
  const known = new Map(
    host.ledger.entries().flatMap((entry) => (entry.file ? [[placeOf(entry), entry]] : [])),
  );
  // What must be there is looked for first: others may have the same bytes.
  const needed = new Set(host.ledger.entries().flatMap(movedTo));
  const untold = host.ledger
    .entries()
    .filter(({ file }) => !file)
    .sort((one, other) => Number(needed.has(other.id)) - Number(needed.has(one.id)));
  for (const [place, bytes] of contents) {
    if (OWN.test(place)) continue;
    const [, high, low, base] = PLACE.exec(place) ?? [];
    assert.ok(base, `${place} lies about`);
    const belongs = /^(.*)-(m|deleted)$/.exec(base);
    if (belongs) {
      const owner = posix.join(posix.dirname(place), belongs[1]!);
      assert.ok(places.has(owner), `${place} is left without its file`);
      continue;
    }
    const entry = known.get(place);
    if (entry) {
      const isPossible = entry.possible.some((each) => each.bytes);
      assert.ok(isPossible, `${place} is there, though nothing can be`);
      continue;
    }
    const id = parseFileName('group1', `M00/${high}/${low}/${base}`);
    assert.ok(id, `${place} has no name of a file`);
    const metadata = contents.find(([each]) => each === `${place}-m`)?.[1].toString('latin1');
    const index = untold.findIndex((each) => matches(each, id, bytes, metadata));
    assert.ok(index >= 0, `${place}: ${bytes.length} bytes under a valid name that nobody sent`);
    untold.splice(index, 1);
  }
  for (const { id } of untold) {
    assert.ok(!needed.has(id), `${id} should be there, as what another file has become`);
  }
}

/** What the file has surely become: an entry that must be there, under whatever name. */
function movedTo({ file, possible }: Entry): number[] {
  const id = possible.length === 1 ? possible[0]!.movedTo : undefined;
  return file && id !== undefined ? [id] : [];
}

function placeOf({ file }: Entry): string {
  const { directory, base } = parseFileName(file!.group, file!.name)!;
  return `/data/${directory[0]}/${directory[1]}/${base}`;
}

function matches(entry: Entry, id: FileId, bytes: Buffer, metadata: string | undefined): boolean {
  const agrees = entry.possible.some(
    (each) => each.bytes?.equals(bytes) && each.metadata === metadata,
  );
  if (!agrees || (fileKind(id) === 'appender') !== (entry.kind === 'appender')) return false;
  if (entry.kind === 'appender') return true;
  const fields = decodeFields(id.base);
  return fields.crc32 === crc32(bytes) && sizeOfField(fields.sizeField) === bytes.length;
}
