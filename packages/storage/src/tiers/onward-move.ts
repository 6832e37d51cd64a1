import type { DataFiles } from '../io-tier/data-files.js';
import type { StripedFile } from '../io-tier/striped-file.js';
import { Place } from './constants.js';
import type { Move, MoveStep } from './move.js';
import type { MovesUnderWay } from './moves-under-way.js';
import type { FileRecord } from './record-row.js';
import type { Records } from './records.js';
import { copyToServers } from './server-copies.js';
import type { Switches } from './switches.js';

/** A move that a client is to carry on: what there was is copied, the record not switched. */
export interface OnwardMove {
  /** Has what the file had. */
  readonly file: StripedFile;
  readonly size: number;
  /** True once the file was changed or deleted meanwhile, or the move was given up. */
  readonly isRevoked: boolean;
  /**
   * The record is switched to the file with what was appended to it, unless the move
   * was revoked; durable with the next commit. To be called by who has the file for himself.
   */
  finish(size: number, checks: readonly number[], mtimeSeconds: number): boolean;
  giveUp(): void;
}

export interface OnwardParts {
  readonly records: Records;
  readonly switches: Switches;
  readonly underWay: MovesUnderWay;
  readonly dataFiles: DataFiles | undefined;
  readonly onStep: (step: MoveStep, name: string) => void;
  readonly onMoved: (name: string) => void;
}

/**
 * Begins to move a file to I/O servers for a client that appends so much to it that it
 * will outgrow `limitBytes(moves)`; undefined if it will not, is being moved or changed,
 * or there are no servers.
 */
export async function beginOnward(
  parts: OnwardParts,
  name: string,
  bytes: number,
  limitBytes: (moves: number) => number,
): Promise<OnwardMove | undefined> {
  const { records, underWay, dataFiles, onStep } = parts;
  const record = records.find(name);
  if (record?.place !== Place.row || record.size + bytes <= limitBytes(record.moves)) {
    return undefined;
  }
  const move = underWay.begin(name);
  if (!move) return undefined;
  let file: StripedFile | undefined;
  try {
    const content = { bytes: records.bytes(name)!, mtimeSeconds: record.mtimeSeconds };
    file = await copyToServers(dataFiles, name, content, onStep);
  } catch (error) {
    move.end();
    throw error;
  }
  if (!file || move.isRevoked) {
    if (move.isRevoked) underWay.wasRevoked();
    move.end();
    await file?.close();
    return undefined;
  }
  return onwardMove(parts, record, file, move);
}

function onwardMove(
  { switches, underWay, onMoved }: OnwardParts,
  record: FileRecord,
  file: StripedFile,
  move: Move,
): OnwardMove {
  const { name, size } = record;
  let isOver = false;
  const giveUp = (): void => {
    if (isOver) return;
    isOver = true;
    move.end();
    void file.close();
  };
  move.onRevoke = () => {
    if (!isOver) underWay.wasRevoked();
    giveUp();
  };
  return {
    file,
    size,
    get isRevoked() {
      return isOver;
    },
    finish: (grown, checks, mtimeSeconds) => {
      if (isOver) return false;
      isOver = true;
      file.extended(grown, checks, mtimeSeconds);
      switches.toServers(record, name, file, { moves: record.moves + 1, moving: false });
      move.end();
      void file.close();
      onMoved(name);
      return true;
    },
    giveUp,
  };
}
