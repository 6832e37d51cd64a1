import { rm } from 'node:fs/promises';
import type { Disk } from '@stevedore/disk';
import { describeStored } from '../accept/retention.js';
import type { StoredTrunk } from '../container/records.js';
import { replayContainer, replaySegment } from '../container/recovery.js';
import { Segment } from '../container/segment.js';
import { FileMap, type FileRow, isGivenUp, type TrunkRow } from '../filemap/filemap.js';
import { MAX_FILES, waitingFrom } from '../merge/waiting-files.js';
import { settleKnown } from '../repair/rebuild.js';
import { soundBytes } from '../repair/sound-bytes.js';

/**
 * An index of the files of a held copy: what its gateway itself would find at a start. It is rebuilt
 * from the records each time; nothing is written to the copy itself. While that gateway is connected,
 * it follows what arrives.
 */

const INDEX = 'index.sqlite';
const PAGE = 500;
const NO_KEY = Buffer.alloc(0);

export class HeldIndex {
  readonly #directory: string;
  readonly #fileMap: FileMap;
  readonly #segments: Map<number, Segment>;

  private constructor(directory: string, fileMap: FileMap, segments: readonly Segment[]) {
    this.#directory = directory;
    this.#fileMap = fileMap;
    this.#segments = new Map(segments.map((segment) => [segment.number, segment]));
  }

  static async open(disk: Disk, directory: string, now: number): Promise<HeldIndex> {
    await removeIndex(directory);
    const fileMap = FileMap.open(`${directory}/${INDEX}`);
    try {
      const { segments } = await replayContainer(disk, `${directory}/container`, fileMap, now);
      await settleKnown(fileMap);
      return new HeldIndex(directory, fileMap, segments);
    } catch (error) {
      await fileMap.close();
      throw error;
    }
  }

  /** Of a copy that is being written: empty until `follow`. */
  static async live(directory: string): Promise<HeldIndex> {
    await removeIndex(directory);
    return new HeldIndex(directory, FileMap.open(`${directory}/${INDEX}`), []);
  }

  /**
   * Reads what has arrived: so many bytes of each segment are durable. False if this index has read
   * more, which was cut off since: it is of no use any more.
   */
  async follow(disk: Disk, state: readonly (readonly [number, number])[]): Promise<boolean> {
    const held = new Map(state);
    for (const [number, segment] of this.#segments) {
      if (held.has(number)) continue;
      this.#segments.delete(number);
      await segment.close();
    }
    for (const [number, bytes] of held) {
      const indexed = this.#fileMap.indexedBytes(number);
      if (bytes < indexed) return false;
      const folder = `${this.#directory}/container`;
      const segment =
        this.#segments.get(number) ?? (await Segment.openToRead(disk, folder, number));
      // It was released meanwhile.
      if (!segment) continue;
      this.#segments.set(number, segment);
      segment.bytes = bytes;
      segment.end = bytes;
      if (bytes > indexed) await replaySegment(segment, undefined, this.#fileMap);
    }
    return true;
  }

  /** The staged file, if its bytes are in the copy. */
  find(key: Buffer): FileRow | undefined {
    const row = this.#fileMap.find(key);
    return row && row.local.at === 'container' && this.#segments.has(row.local.segment)
      ? row
      : undefined;
  }

  isDeleted(key: Buffer): boolean {
    return this.#fileMap.isDeleted(key);
  }

  /** Undefined if the bytes are damaged. */
  read(row: FileRow): Promise<Buffer | undefined> {
    return soundBytes({ segment: (number) => this.#segments.get(number) }, row);
  }

  /** Files not yet in a trunk, as far as the copy knows. Large ones have no bytes here. */
  waiting(): Iterable<FileRow> {
    return waitingFrom(this.#fileMap, 0);
  }

  /** Trunks that the gateway had stored and not retired. */
  trunks(): StoredTrunk[] {
    const states = ['stored', 'missing', 'confirmed'] as const;
    const rows = states.flatMap((state) => this.#fileMap.trunksIn(state));
    return rows.map((trunk) => describeStored(this.#fileMap, trunk));
  }

  /**
   * True if nothing in the trunk was alive: its gateway had deleted it from FastDFS or was about
   * to.
   */
  isGivenUp(taskId: Buffer): boolean {
    const trunk = this.#fileMap.trunkByTask(taskId);
    return trunk !== undefined && isGivenUp(trunk);
  }

  /** Keys of the living files of a trunk. */
  filesIn(taskId: Buffer): Buffer[] {
    const trunk = this.#fileMap.trunkByTask(taskId);
    const rows = trunk ? this.#fileMap.aliveIn(trunk.id, -1, MAX_FILES) : [];
    return rows.map(({ key }) => key);
  }

  /** Trunks that FastDFS may or may not have, with their members. */
  plans() {
    const rows = [...this.#fileMap.trunksIn('planned'), ...this.#fileMap.trunksIn('abandoned')];
    return rows.map((trunk: TrunkRow) => ({ ...trunk, members: this.#fileMap.members(trunk.id) }));
  }

  /** Keys of deleted files, in pages. */
  *deleted(): Generator<Buffer[]> {
    for (let after: Buffer = NO_KEY; ; ) {
      const keys = this.#fileMap.deletedKeys({ after, limit: PAGE });
      if (keys.length > 0) yield keys;
      if (keys.length < PAGE) return;
      after = keys.at(-1)!;
    }
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#segments.values()].map((segment) => segment.close()));
    await this.#fileMap.close();
    await removeIndex(this.#directory);
  }
}

async function removeIndex(directory: string): Promise<void> {
  for (const suffix of ['', '-wal', '-shm']) {
    await rm(`${directory}/${INDEX}${suffix}`, { force: true });
  }
}
