import { setImmediate as nextTurn } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { hasCode, isMediumFailure } from '@stevedore/disk';
import { decodeFields, parseFileId, sizeOfField } from '@stevedore/protocol';
import { combineCrcs } from '../container/block-checksums.js';
import type { Container } from '../container/container.js';
import { planRecord, storedRecord } from '../container/records.js';
import { Unreadable } from '../container/segment.js';
import type { Spool } from '../container/spool.js';
import { isStoreError } from '../errors.js';
import type { FileMap, FileRow } from '../filemap/filemap.js';
import {
  type Confirmed,
  NONE_CONFIRMED,
  type PlannedMember,
  type PlannedTrunk,
  sumOf,
} from '../filemap/rows.js';
import type { State } from '../state.js';
import {
  canHoldSlices,
  encodeDirectory,
  memberHeaderBytes,
  type TrunkPlan,
  writeMemberHeader,
} from './trunk-plan.js';

/**
 * Takes one plan through its states: planned, sending, stored, confirmed. The plan is durable
 * before the first byte is sent. The id that FastDFS returns must show the size and the CRC-32 that
 * were computed while sending. If it does not (`mismatch`), the trunk is deleted from FastDFS and
 * sent again. Staged bytes are untouched throughout.
 */
export interface SentTrunk {
  readonly plan: TrunkPlan;
  readonly fileId: string;
}

/** Rows per FileMap transaction, so that confirming a trunk never delays uploads for long. */
const CONFIRM_PAGE = 500;

export class TrunkSender {
  readonly #state: State;
  /** Plans that FastDFS stored wrongly: they are sent from the disk, whose bytes are checked. */
  readonly #doubted = new WeakSet<TrunkPlan>();
  /** Plans whose members may have been confirmed in part. */
  readonly #begun = new WeakSet<TrunkPlan>();

  constructor(state: State) {
    this.#state = state;
  }

  async announce(plan: TrunkPlan): Promise<void> {
    await this.#state.container.append([planRecord(plan, this.#state.now())]);
  }

  /** Stores the announced plan. Can be retried after a failure. */
  async send(plan: TrunkPlan, signal: AbortSignal): Promise<SentTrunk> {
    const sum: Sum = { crc32: 0 };
    const { trunkStore, now, fileMap } = this.#state;
    const pieces = () => this.#piecesOf(plan, sum);
    const doubt = () => fileMap.doubt(now(), fileMap.trunkByTask(plan.taskId)!.id);
    const source = { size: plan.size, extension: plan.extension, pieces, onLost: doubt };
    const fileId = await trunkStore.store(source, signal);
    const wrong = mismatch(fileId, plan, sum.crc32);
    if (wrong) {
      this.#doubted.add(plan);
      // If the removal fails or the process ends, it is removed later.
      fileMap.addUnwanted(fileId);
      const isRemoved = await trunkStore.remove(fileId, signal).then(
        () => true,
        () => false,
      );
      if (isRemoved) fileMap.removeUnwanted(fileId);
      const fate = isRemoved ? 'it was deleted' : 'it is deleted later';
      throw new Error(`FastDFS stored ${fileId} wrongly (${wrong}); ${fate}, and sent again`);
    }
    // If the record is refused, the trunk is left in FastDFS and the plan is sent again: part of
    // the record may be on disk. An orphan can be found, but a trunk that a record names cannot be
    // recreated once it is deleted.
    try {
      await this.#record(plan, fileId, sum.crc32);
    } catch (error) {
      doubt();
      throw error;
    }
    return { plan, fileId };
  }

  /**
   * Adopts a trunk that an earlier process stored but could not record. False if sending the plan
   * now would store something else.
   */
  async adopt(plan: TrunkPlan, fileId: string, signal: AbortSignal): Promise<boolean> {
    const sum: Sum = { crc32: 0 };
    for await (const _ of this.#piecesOf(plan, sum)) signal.throwIfAborted();
    if (mismatch(fileId, plan, sum.crc32)) return false;
    await this.#record(plan, fileId, sum.crc32);
    return true;
  }

  async #record(plan: TrunkPlan, fileId: string, trunkCrc: number): Promise<void> {
    const { container, fileMap, now } = this.#state;
    const { doubtfulSince } = fileMap.trunkByTask(plan.taskId)!;
    const blocks = plan.kind === 'whole' ? fileMap.blocks(plan.rows[0]!.key) : undefined;
    const stored = {
      ...describe(plan, fileId, trunkCrc),
      doubtful: doubtfulSince !== null,
      blocks,
    };
    await container.append([storedRecord(stored, now())]);
    const { id } = fileMap.trunkByTask(plan.taskId)!;
    // If some members were confirmed before a failure, the rows must be counted.
    const isFirst = !this.#begun.has(plan);
    this.#begun.add(plan);
    let confirmed = NONE_CONFIRMED;
    await inPages(plan.members, (page) => {
      confirmed = sumOf(confirmed, fileMap.confirmMembers(id, page));
    });
    finishTrunk(fileMap, id, plan.members, plan, isFirst ? confirmed : undefined);
  }

  #piecesOf(plan: TrunkPlan, sum: Sum): AsyncIterable<readonly Uint8Array[]> {
    const { container, spool } = this.#state;
    sum.crc32 = 0;
    if (plan.kind === 'whole') return wholeBytes(spool, plan.rows[0]!, sum);
    return trunkPieces(plan, container, this.#doubted.has(plan), sum);
  }
}

/** Of the bytes that were sent, once all were. */
interface Sum {
  crc32: number;
}

/** Throws DamagedMembers. */
async function* wholeBytes(spool: Spool, row: FileRow, sum: Sum): AsyncGenerator<[Uint8Array]> {
  try {
    // Its end is reached only by the bytes of the file.
    for await (const chunk of spool.read(row.key, row)) yield [chunk];
    sum.crc32 = row.crc32;
  } catch (error) {
    const isDamage = isStoreError(error, 'corrupt') || hasCode(error, 'ENOENT');
    throw isDamage ? new DamagedMembers([row]) : error;
  }
}

/** Confirms a page at a time, so that uploads get their turn. Can be repeated after a crash. */
export async function inPages(
  members: readonly PlannedMember[],
  confirm: (page: readonly PlannedMember[]) => void,
): Promise<void> {
  for (let at = 0; at < members.length; at += CONFIRM_PAGE) {
    confirm(members.slice(at, at + CONFIRM_PAGE));
    await nextTurn();
  }
}

export function finishTrunk(
  fileMap: FileMap,
  trunk: number,
  members: readonly PlannedMember[],
  plan?: PlannedTrunk,
  confirmed?: Confirmed,
): void {
  const contentBytes = members.reduce((sum, { size }) => sum + size, 0);
  fileMap.finishTrunk(trunk, members.length, contentBytes, plan, confirmed);
}

function describe(plan: TrunkPlan, fileId: string, trunkCrc: number) {
  const { taskId, kind, size, rows } = plan;
  const file = kind === 'whole' ? rows[0] : undefined;
  return { taskId, kind, fileId, size, crc32: trunkCrc, files: rows.length, file };
}

/** How the id differs from what was sent; undefined if it matches. */
function mismatch(fileId: string, { size, kind }: TrunkPlan, crc: number): string | undefined {
  const id = parseFileId(fileId);
  if (!id) return 'the id is malformed';
  if (kind === 'trunk' && !canHoldSlices(id)) return 'no slice ids can be made from the id';
  const fields = decodeFields(id.base);
  const storedSize = sizeOfField(fields.sizeField);
  if (storedSize !== size) return `${storedSize} bytes instead of ${size}`;
  if (fields.crc32 !== crc) return `CRC-32 ${fields.crc32} instead of ${crc}`;
  return undefined;
}

/** The bytes of files on this disk are damaged or unreadable. */
export class DamagedMembers extends Error {
  readonly rows: readonly FileRow[];

  /** At least one. */
  constructor(rows: readonly FileRow[]) {
    const names = rows.map(({ key }) => key.toString('base64url'));
    const others = rows.length > 1 ? ` and of ${rows.length - 1} more` : '';
    super(`the staged bytes of ${names[0]}${others} are damaged`);
    this.rows = rows;
  }
}

/** One read covers adjacent files up to this many bytes, with gaps of at most the second figure. */
const EXTENT_BYTES = 2 ** 20;
const MAX_GAP_BYTES = 64 * 1024;
/** Maximum files per read, so that tiny ones do not delay uploads. */
const EXTENT_FILES = 1_000;

/**
 * Yields the trunk about a MiB at a time, from the container's tail in memory or its disk as it is
 * sent: it is never in memory as a whole. What the disk gives is checked against the CRC-32 of every
 * file. The trunk's is combined from theirs: FastDFS's answer shows whether it has the bytes that were
 * acknowledged. Throws DamagedMembers.
 */
async function* trunkPieces(
  plan: TrunkPlan,
  container: Container,
  onlyDisk: boolean,
  sum: Sum,
): AsyncGenerator<readonly Uint8Array[]> {
  let room = Buffer.alloc(0);
  for (const extent of extents(plan.rows)) {
    const { rows } = extent;
    const inMemory = onlyDisk ? undefined : container.pin(rows);
    try {
      const bodies = inMemory?.bodies ?? (await soundBodies(extent, container));
      const headersBytes = rows.reduce((bytes, row) => bytes + memberHeaderBytes(row), 0);
      if (room.length < headersBytes) room = Buffer.allocUnsafeSlow(headersBytes);
      const pieces: Uint8Array[] = [];
      let at = 0;
      for (const [index, row] of rows.entries()) {
        const end = at + writeMemberHeader(room, at, row);
        const header = room.subarray(at, end);
        pieces.push(header, bodies[index]!);
        sum.crc32 = combineCrcs(crc32(header, sum.crc32), row.crc32, row.size);
        at = end;
      }
      yield pieces;
    } finally {
      inMemory?.release();
    }
  }
  for (const piece of encodeDirectory(plan)) {
    sum.crc32 = crc32(piece, sum.crc32);
    yield [piece];
    await nextTurn();
  }
}

/** Throws DamagedMembers. */
async function soundBodies(extent: Extent, container: Container): Promise<Buffer[]> {
  const found = await bodiesOf(extent, container);
  const bodies: Buffer[] = [];
  const damaged: FileRow[] = [];
  for (const [index, row] of extent.rows.entries()) {
    const body = found[index];
    if (body?.length === row.size && crc32(body) === row.crc32) bodies.push(body);
    else damaged.push(row);
  }
  if (damaged.length > 0) throw new DamagedMembers(damaged);
  return bodies;
}

/** Reads the files one by one if a joint read fails: one bad sector does not damage all of them. */
async function bodiesOf(
  { segment: number, start, end, rows }: Extent,
  container: Container,
): Promise<(Buffer | undefined)[]> {
  const segment = container.segment(number);
  if (!segment) return rows.map(() => Buffer.alloc(0));
  try {
    const bytes = await segment.read(start, end - start);
    return rows.map(({ local, size }) => {
      const from = local.position - start;
      return bytes.subarray(from, from + size);
    });
  } catch (error) {
    if (!isMediumFailure(error)) throw error;
  }
  const bodies: (Buffer | undefined)[] = [];
  for (const { local, size } of rows) {
    const body = segment.readFirmly(local.position, size).catch((error: unknown) => {
      if (error instanceof Unreadable) return undefined;
      throw error;
    });
    bodies.push(await body);
  }
  return bodies;
}

interface Extent {
  readonly segment: number;
  readonly start: number;
  end: number;
  readonly rows: FileRow[];
}

/** Groups members that one read of their segment covers. */
function extents(rows: readonly FileRow[]): Extent[] {
  const found: Extent[] = [];
  for (const row of rows) {
    const last = found.at(-1);
    const { segment, position } = row.local;
    const end = position + row.size;
    const gap = last ? position - last.end : 0;
    if (
      last?.segment === segment &&
      gap >= 0 &&
      gap <= MAX_GAP_BYTES &&
      last.rows.length < EXTENT_FILES &&
      end - last.start <= EXTENT_BYTES
    ) {
      last.rows.push(row);
      last.end = end;
    } else {
      found.push({ segment, start: position, end, rows: [row] });
    }
  }
  return found;
}
