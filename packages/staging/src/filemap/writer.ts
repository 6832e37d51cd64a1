import type { FileChange, FileMapChange, FormerPlace, PlannedMember } from './changes.js';
import { packMembers, unpackMembers } from './changes.js';
import { type Counted, Sums } from './counters.js';
import { type AdoptedFile, type FileRow, placesOf, type TrunkRow } from './rows.js';
import type { Statements } from './statements.js';

/**
 * What records of the container and confirmations of trunks do to the FileMap's
 * tables. One writer is one transaction: it gathers what the counters are to change by,
 * and `finish` writes that.
 *
 * In which order trunks are read back into a FileMap that was lost does not matter:
 * where two hold a file, the place that the other one's `was` lists is the former one.
 */
export class FileMapWriter {
  readonly #statements: Statements;
  readonly #sums = new Sums();

  constructor(statements: Statements) {
    this.#statements = statements;
  }

  finish(): void {
    for (const [name, value] of this.#sums.entries()) this.#statements.count.run(value, name);
  }

  change(change: FileMapChange, segment: number): void {
    switch (change.what) {
      case 'file':
        this.#addFile(change, segment);
        return;
      case 'moved':
        this.#moveFile(change, segment);
        return;
      case 'deletion':
        this.#deleteFile(change.key, segment);
        return;
      case 'plan':
        this.#statements.addPlan.run({
          taskId: change.taskId,
          kind: change.kind,
          size: change.size,
          files: change.members.length,
          members: packMembers(change.members),
          segment,
        });
        return;
      case 'stored':
        this.#addStored(change, segment);
        return;
      case 'retired':
        this.#retire(change, segment);
    }
  }

  /** Points members at the trunk in which they are, unless they are elsewhere by now. */
  confirmMembers(trunk: number, members: readonly PlannedMember[]): void {
    for (const { key, offset } of members) {
      const row = this.#statements.confirmFile.get(trunk, offset, key) as
        | { size: number; spooled: number }
        | undefined;
      if (!row) {
        this.#hold(trunk, key);
        continue;
      }
      this.#sums.add(row.spooled === 0 ? 'waiting' : 'spooled', -1, -row.size);
      this.#sums.add('merged', 1, row.size);
    }
  }

  /** As `confirmMembers`, for a trunk that an earlier process stored. */
  confirmUnmoved(trunk: TrunkRow, members: readonly PlannedMember[]): void {
    const unmoved = members.filter(({ offset }) => !this.#isForwarded(trunk.fileId!, offset));
    this.confirmMembers(trunk.id, unmoved);
  }

  /** Rows for members of a trunk that only its own directory still tells about. */
  adoptMembers(trunk: TrunkRow, entries: readonly AdoptedFile[]): void {
    const members: PlannedMember[] = [];
    for (const { file, offset, was } of entries) {
      const { key, size } = file;
      for (const [fileId, at] of was) this.#forward(fileId, at, key);
      if (this.#isDeleted(key)) this.#hold(trunk.id, key);
      else if (this.#isForwarded(trunk.fileId!, offset)) continue;
      else if (!this.#claim(trunk, key, offset, was)) {
        this.#adopt(file, { spooled: 0, places: placesText(was) });
        members.push({ key, offset, size });
      }
    }
    this.confirmMembers(trunk.id, members);
  }

  /** The trunk is in place and every living member's row says so; the rest of it is dead. */
  finishTrunk(trunk: number, files: number, contentBytes: number): void {
    const values = { trunk, files, bytes: contentBytes };
    this.#statements.finishTrunk.run(values);
    this.#statements.countDead.run(values);
    this.#statements.markSparse.run({ trunk });
  }

  /** The bytes it was moved to are lost: it is where it was before. False if that is gone. */
  takeBack(key: Buffer): boolean {
    const row = this.#find(key);
    if (!row || row.trunk !== null) return false;
    const places = placesOf(row);
    const [fileId, offset] = places.pop() ?? [];
    if (fileId === undefined || offset === undefined) return false;
    const trunk = this.#statements.trunkByFile.get(fileId) as TrunkRow | undefined;
    if (trunk?.state !== 'confirmed') return false;
    // A small file may have been set aside in the spool.
    const spooled = trunk.kind === 'whole' ? 2 : 0;
    const was = placesText(places);
    this.#statements.returnFile.run({ key, trunk: trunk.id, offset, was, spooled });
    this.#statements.removeForward.run(fileId, offset);
    this.#sums.add(countedAs(row), -1, -row.size);
    this.#sums.add('merged', 1, row.size);
    this.#statements.uncountDead.run(row.size, trunk.id);
    this.#statements.clearSparse.run(trunk.id);
    this.#statements.markSparse.run({ trunk: trunk.id });
    return true;
  }

  #addFile(change: FileChange, segment: number): void {
    const { key, name, type, group, size, crc32, stagedAt, position, spooled } = change;
    const { expiresAt = null, once } = change;
    const mark = once === undefined ? null : Buffer.from(once, 'base64url');
    const { changes } = this.#statements.addFile.run(
      key,
      name,
      type,
      group ?? null,
      size,
      crc32,
      stagedAt,
      segment,
      position,
      spooled ? 1 : 0,
      expiresAt,
      mark,
    );
    if (changes === 0) return;
    this.#sums.add(spooled ? 'spooled' : 'waiting', 1, size);
    if (change.blocks) this.#statements.setBlocks.run(key, change.blocks);
  }

  /** The file's bytes are in the container or the spool again; its place in a trunk is dead. */
  #moveFile(change: Extract<FileMapChange, { what: 'moved' }>, segment: number): void {
    const { key, size, position, spooled, blocks, was } = change;
    if (this.#isDeleted(key)) return;
    const row = this.#find(key);
    if (!row) this.#addFile(change, segment);
    else {
      if (row.trunk !== null) this.#addDead(row.trunk, row.size);
      this.#sums.add(countedAs(row), -1, -row.size);
      this.#sums.add(spooled ? 'spooled' : 'waiting', 1, size);
    }
    // The copies it had are not those that it has now.
    this.#statements.removeAllDamage.run(key);
    const place = { segment, position, spooled: spooled ? 1 : 0, was: placesText(was) };
    this.#statements.moveFile.run({ key, ...place });
    if (blocks) this.#statements.setBlocks.run(key, blocks);
    for (const [fileId, offset] of was) this.#forward(fileId, offset, key);
  }

  #deleteFile(key: Buffer, segment: number): void {
    const row = this.#find(key);
    // One trunk has it and no other ever had: its row stays with that trunk.
    const isHeldOnce = row ? row.trunk !== null && row.was === null : this.#findMarked(key);
    if (isHeldOnce) this.#mark(key, segment);
    else this.#noteDeletion(key, row, segment);
    if (!row) return;
    this.#sums.add(countedAs(row), -1, -row.size);
    if (row.trunk !== null) this.#addDead(row.trunk, row.size);
    if (row.was !== null) this.#statements.removeForwards.run(key);
    if (row.spooled > 0) this.#statements.removeBlocks.run(key);
    this.#statements.removeAllDamage.run(key);
  }

  #mark(key: Buffer, segment: number): void {
    this.#statements.markFile.run({ key, segment });
    this.#statements.noteMark.run(segment, key);
  }

  #noteDeletion(key: Buffer, row: FileRow | undefined, segment: number): void {
    const holders = row ? this.#holders(row) : [];
    for (const trunk of holders) this.#statements.addHold.run(trunk, key);
    this.#statements.addDeletion.run({ key, segment, trunks: holders.length });
    if (row) this.#statements.removeFile.run(key);
  }

  /** The trunks that have the file: its own, and those it was moved from that are there. */
  #holders(row: FileRow): number[] {
    const holders = row.trunk === null ? [] : [row.trunk];
    if (row.was === null) return holders;
    for (const [fileId] of JSON.parse(row.was) as FormerPlace[]) {
      const trunk = this.#statements.trunkByFile.get(fileId) as TrunkRow | undefined;
      const isGone = !trunk || trunk.state === 'retiring' || trunk.state === 'retired';
      if (!isGone && !holders.includes(trunk.id)) holders.push(trunk.id);
    }
    return holders;
  }

  #addStored(change: Extract<FileMapChange, { what: 'stored' }>, segment: number): void {
    const { taskId, kind, fileId, size, crc32, files, file } = change;
    const known = this.#statements.trunkByTask.get(taskId) as TrunkRow | undefined;
    const isGone = known?.state === 'retiring' || known?.state === 'retired';
    // A large file that only the record of its storing may still tell about.
    if (file && !isGone && !this.#isDeleted(file.key)) {
      this.#adopt(file, { spooled: 2, places: placesText(file.was) });
      for (const [place, offset] of file.was) this.#forward(place, offset, file.key);
    }
    const members = file ? packMembers([{ key: file.key, offset: 0, size }]) : null;
    const { doubtfulSince = null, blocks } = change;
    const values = { taskId, kind, fileId, size, crc32, files, members, segment, doubtfulSince };
    this.#statements.addStored.run(values);
    if (file && blocks && this.#find(file.key)) this.#statements.setBlocks.run(file.key, blocks);
  }

  #retire(change: Extract<FileMapChange, { what: 'retired' }>, segment: number): void {
    const { taskId, kind, fileId, size, files, doubtfulSince = null } = change;
    const known = this.#statements.trunkByTask.get(taskId) as TrunkRow | undefined;
    if (known?.kind === 'whole') this.#forgetAdopted(known.id);
    this.#statements.addRetired.run({
      ...{ taskId, kind, fileId, size, files, segment, doubtfulSince },
    });
    if (!known) return;
    this.#statements.uncountHolds.run(known.id);
    this.#statements.freeHolds.run(known.id);
    // A trunk whose members are not known yet may have their files as well.
    this.#statements.listMarked.run(known.id);
    this.#statements.removeMarked.run(known.id);
  }

  /** The file's deletion was forgotten with its trunk; the record of its storing remains. */
  #forgetAdopted(trunk: number): void {
    const found = this.#statements.members.get(trunk) as { members: Buffer | null };
    for (const { key } of found.members ? unpackMembers(found.members) : []) {
      const row = this.#find(key);
      if (row?.trunk !== null || row.spooled !== 2) continue;
      this.#statements.removeFile.run(key);
      this.#sums.add('spooled', -1, -row.size);
    }
  }

  #adopt(
    file: AdoptedFile['file'],
    { spooled, places }: { readonly spooled: 0 | 2; readonly places: string | null },
  ): void {
    const { key, name, type, group, size, crc32, stagedAt, expiresAt = null } = file;
    const about = [key, name, type, group ?? null, size, crc32, stagedAt];
    const { changes } = this.#statements.adoptFile.run(...about, spooled, places, expiresAt);
    if (changes === 1) this.#sums.add(spooled === 0 ? 'waiting' : 'spooled', 1, size);
  }

  /**
   * True if the file has a place in another trunk already: the one it was moved from,
   * and then this is its place, or one that it has to stay in.
   */
  #claim(trunk: TrunkRow, key: Buffer, offset: number, was: readonly FormerPlace[]): boolean {
    const row = this.#find(key);
    if (row?.trunk == null || row.trunk === trunk.id) return false;
    const isFormer = ([fileId, at]: FormerPlace) =>
      fileId === row.trunkFileId && at === row.trunkOffset;
    if (was.some(isFormer)) {
      this.#addDead(row.trunk, row.size);
      this.#statements.claimFile.run(trunk.id, offset, JSON.stringify(was), key);
    } else this.#forward(trunk.fileId!, offset, key);
    return true;
  }

  #isForwarded(fileId: string, offset: number): boolean {
    return this.#statements.forward.get(fileId, offset) !== undefined;
  }

  #forward(fileId: string, offset: number, key: Buffer): void {
    if (!this.#isDeleted(key)) this.#statements.addForward.run(fileId, offset, key);
  }

  /** The trunk holds the bytes of a file; if that is deleted, its deletion stays as long. */
  #hold(trunk: number, key: Buffer): void {
    const marked = this.#findMarked(key);
    if (marked?.trunk === trunk) return;
    if (marked) this.#unmark(key, marked);
    if (!this.#isDeleted(key)) return;
    if (this.#statements.addHold.run(trunk, key).changes === 1) this.#statements.countHold.run(key);
  }

  /** A second trunk has the bytes of the deleted file: its row cannot go with the first. */
  #unmark(key: Buffer, { trunk, deleted }: MarkedRow): void {
    this.#statements.removeFile.run(key);
    this.#statements.addHold.run(trunk, key);
    this.#statements.addDeletion.run({ key, segment: deleted, trunks: 1 });
  }

  #addDead(trunk: number, bytes: number): void {
    this.#statements.addDead.run(trunk, bytes);
    this.#statements.markSparse.run({ trunk });
  }

  #isDeleted(key: Buffer): boolean {
    return this.#statements.isDeleted.get({ key }) !== undefined;
  }

  #findMarked(key: Buffer): MarkedRow | undefined {
    return this.#statements.findMarked.get(key) as MarkedRow | undefined;
  }

  #find(key: Buffer): FileRow | undefined {
    return this.#statements.find.get(key) as FileRow | undefined;
  }
}

/** The row of a deleted file: its trunk, and the segment of the deletion's record. */
interface MarkedRow {
  readonly trunk: number;
  readonly deleted: number;
}

function placesText(was: readonly FormerPlace[]): string | null {
  return was.length > 0 ? JSON.stringify(was) : null;
}

function countedAs(row: FileRow): Counted {
  if (row.trunk !== null) return 'merged';
  return row.spooled === 0 ? 'waiting' : 'spooled';
}
