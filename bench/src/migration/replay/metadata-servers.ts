import {
  type AccessedFile,
  assignTargets,
  decideInterval,
  type Forecaster,
  fileThreshold,
  type Observation,
  type Parameters,
  type PolicyState,
  splitByRoom,
  startPolicy,
} from '@stevedore/balance';
import type { ReplayInterval } from './interval.js';
import type { ReplayRequest, RequestClass } from './workload.js';

/**
 * Where the files of a replay lie, and the moves between metadata servers and I/O
 * servers: read at the source, written at the destination, switched; a write in between
 * revokes. The decisions are those of the policy, the same as the daemon's.
 */

export interface MetadataServersOptions {
  readonly count: number;
  readonly ioServers: number;
  readonly capacityBytes: number;
  readonly migration: boolean;
  readonly parameters: Parameters;
  readonly thresholdBytes: number;
  readonly storeBytes: number;
  readonly forecaster: Forecaster<unknown>;
}

/** A piece of copying: so many bytes on that disk for that move. */
export interface CopyStep {
  readonly move: number;
  readonly disk: number;
  readonly bytes: number;
}

export interface DecidedInterval {
  readonly report: Omit<ReplayInterval, 'endMs' | 'server'>;
  readonly allowedSmallFileBytes: number | undefined;
}

interface File {
  bytes: number;
  /** Number of a metadata server, or the I/O servers. */
  place: number | 'io';
  moves: number;
  /** The move that is under way. */
  moving: number | undefined;
}

interface Move {
  readonly name: string;
  readonly from: number | 'io';
  readonly to: number | 'io';
  readonly bytes: number;
  reading: boolean;
}

interface Server {
  state: PolicyState<unknown>;
  accessed: Map<string, number>;
  usedBytes: number;
  forecast: { metadataBytes: number; smallFileBytes: number } | undefined;
}

export class MetadataServers {
  readonly #options: MetadataServersOptions;
  readonly #servers: Server[];
  readonly #files = new Map<string, File>();
  readonly #moves = new Map<number, Move>();
  #nextMove = 0;
  #nextMetadata = 0;
  #moved = 0;
  #movedBytes = 0;
  #revokes = 0;

  constructor(options: MetadataServersOptions) {
    this.#options = options;
    this.#servers = Array.from({ length: options.count }, () => ({
      state: startPolicy(options.forecaster, options.thresholdBytes),
      accessed: new Map(),
      usedBytes: 0,
      forecast: undefined,
    }));
  }

  get totals(): { moves: number; movedBytes: number; revokes: number } {
    return { moves: this.#moved, movedBytes: this.#movedBytes, revokes: this.#revokes };
  }

  /** The disk that serves a request; undefined: the I/O server of the file. */
  place(request: ReplayRequest): number | undefined {
    if (request.class === 'metadata') {
      this.#nextMetadata = (this.#nextMetadata + 1) % this.#options.count;
      return this.#nextMetadata;
    }
    const { place } = this.#file(request.file);
    return place === 'io' ? undefined : place;
  }

  ioDisk(file: string): number {
    return this.#options.count + (hash(file) % this.#options.ioServers);
  }

  touched(server: number, request: ReplayRequest, costBytes: number): void {
    if (request.class === 'metadata') return;
    const { accessed } = this.#servers[server]!;
    accessed.set(request.file, (accessed.get(request.file) ?? 0) + costBytes);
  }

  /** A request was answered: a write may take its file over its threshold, or back below. */
  written(request: ReplayRequest): CopyStep | undefined {
    if (request.class === 'metadata') return undefined;
    const file = this.#file(request.file);
    if (request.write) {
      this.#resize(file, request.fileBytes);
      this.#revoke(file);
    } else if (request.fileBytes > file.bytes) {
      this.#resize(file, request.fileBytes);
    }
    if (!this.#options.migration || file.moving !== undefined || file.place === 'io') {
      return undefined;
    }
    const global = this.#servers[file.place]!.state.thresholdBytes;
    const threshold = fileThreshold(global, file.moves, this.#options.parameters);
    return file.bytes > threshold ? this.#start(request.file, file, 'io') : undefined;
  }

  /** A piece of copying is done; the next one, or the switch. */
  copied(number: number): CopyStep | undefined {
    const move = this.#moves.get(number);
    if (move === undefined) return undefined;
    if (move.reading) {
      move.reading = false;
      const disk = move.to === 'io' ? this.ioDisk(move.name) : move.to;
      return { move: number, disk, bytes: move.bytes };
    }
    const file = this.#file(move.name);
    this.#moves.delete(number);
    const bytes = file.bytes;
    this.#resize(file, 0);
    file.place = move.to;
    file.moving = undefined;
    file.moves += 1;
    this.#resize(file, bytes);
    this.#moved += 1;
    this.#movedBytes += bytes;
    return undefined;
  }

  decide(observed: readonly Record<RequestClass, Observation>[]): {
    intervals: DecidedInterval[];
    copies: CopyStep[];
  } {
    const { capacityBytes, parameters, storeBytes, forecaster } = this.#options;
    const before = this.#servers.map(({ forecast }) => forecast);
    const decisions = this.#servers.map((server, index) => {
      const report = {
        ...observed[index]!,
        usedShare: Math.min(1, server.usedBytes / storeBytes),
        accessed: this.#accessed(index),
      };
      const decision = decideInterval(server.state, report, forecaster, capacityBytes, parameters);
      server.state = decision.state;
      server.forecast = decision.forecast;
      server.accessed = new Map();
      return decision;
    });
    const assignments = this.#options.migration
      ? assignTargets(
          decisions
            .map(({ selection }, id) => ({
              id: String(id),
              totalLoadBytes: selection.totalLoadBytes,
            }))
            .filter(({ totalLoadBytes }) => totalLoadBytes > 0),
          decisions.map(({ forecast }, id) => ({
            id: String(id),
            ...forecast,
            capacityBytes,
            efficiencyMark: parameters.efficiencyMark,
          })),
        )
      : [];
    const copies: CopyStep[] = [];
    const intervals = decisions.map((decision, index) => {
      const target = assignments.find(({ sourceId }) => sourceId === String(index));
      const files = this.#options.migration ? decision.selection.files : [];
      const split = splitByRoom(files, target?.roomBytes ?? 0);
      const to = [
        ...split.toTarget.map(({ id }) => [id, Number(target?.targetId)] as const),
        ...(this.#options.ioServers > 0
          ? split.rest.map(({ id }) => [id, 'io' as const] as const)
          : []),
      ];
      for (const [name, place] of to) {
        const step = this.#start(name, this.#file(name), place);
        if (step) copies.push(step);
      }
      return {
        report: {
          metadata: {
            ...observed[index]!.metadata,
            forecastBytes: before[index]?.metadataBytes,
          },
          smallFile: {
            ...observed[index]!.smallFile,
            forecastBytes: before[index]?.smallFileBytes,
          },
          thresholdBytes: decision.state.thresholdBytes,
          loadToMoveBytes: decision.loadToMoveBytes,
          movesToServer: split.toTarget.length,
          movesToIoServers: split.rest.length,
        },
        allowedSmallFileBytes: this.#options.migration ? decision.allowedSmallFileBytes : undefined,
      };
    });
    return { intervals, copies };
  }

  #accessed(index: number): AccessedFile[] {
    return [...this.#servers[index]!.accessed].flatMap(([id, loadBytes]) => {
      const file = this.#file(id);
      const movable = file.place === index && file.moving === undefined;
      return movable ? [{ id, loadBytes, sizeBytes: file.bytes }] : [];
    });
  }

  #start(name: string, file: File, to: number | 'io'): CopyStep | undefined {
    if (file.place === 'io' || file.moving !== undefined || file.place === to) return undefined;
    const number = this.#nextMove;
    this.#nextMove += 1;
    file.moving = number;
    this.#moves.set(number, { name, from: file.place, to, bytes: file.bytes, reading: true });
    return { move: number, disk: file.place, bytes: file.bytes };
  }

  #revoke(file: File): void {
    if (file.moving === undefined) return;
    this.#moves.delete(file.moving);
    file.moving = undefined;
    this.#revokes += 1;
  }

  #file(name: string): File {
    let file = this.#files.get(name);
    if (file === undefined) {
      const place = hash(name) % this.#options.count;
      file = { bytes: 0, place, moves: 0, moving: undefined };
      this.#files.set(name, file);
    }
    return file;
  }

  #resize(file: File, bytes: number): void {
    if (file.place !== 'io') this.#servers[file.place]!.usedBytes += bytes - file.bytes;
    file.bytes = bytes;
  }
}

/** FNV-1a: the same place for the same name. */
function hash(name: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < name.length; index += 1) {
    value = Math.imul(value ^ name.charCodeAt(index), 0x01000193) >>> 0;
  }
  return value;
}
