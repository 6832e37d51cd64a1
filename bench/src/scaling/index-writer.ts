import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { DeploymentMap } from '@stevedore/map';
import type { FileRow } from '@stevedore/staging';
import { Publisher } from '../../../packages/client/dist/deployment/publisher.js';
import { FileMap } from '../../../packages/staging/dist/filemap/filemap.js';
import { packMembers } from '../../../packages/staging/dist/filemap/rows.js';
import type { TrunkPlan } from '../../../packages/staging/dist/merge/trunk-plan.js';
import { type Observer, type Site, simulateGateway } from './gateway-trunks.js';
import { newSqliteMap, type SizedMap, sizeWithLog } from './sized-map.js';

/**
 * What a file costs in a FileMap and in a map: the files of a simulated gateway are written with the
 * product's own FileMap and published by its own Publisher to a map.
 */

export interface IndexCost {
  /** Beside what they take without a file. */
  readonly fileMapBytesPerFile: number;
  readonly mapBytesPerFile: number;
  readonly emptyFileMapBytes: number;
  readonly emptyMapBytes: number;
  /** Rows of files that one connection places a second. */
  readonly mapRowsPerSecond: number;
  /** Statements that place a trunk, or a part of a large one, for each trunk. */
  readonly statementsPerTrunk: number;
}

/** Files that are staged with one transaction: those that come while the disk is busy. */
const BATCH_FILES = 64;
const CONFIRM_PAGE = 500;

/** `sized`: an empty map; default a new SQLite file. */
export async function measureIndexes(
  directory: string,
  site: Site,
  sized?: SizedMap,
): Promise<IndexCost> {
  await mkdir(directory, { recursive: true });
  const path = join(directory, 'filemap.sqlite');
  const { map, emptyBytes, bytes } = sized ?? (await newSqliteMap(join(directory, 'map.db')));
  const counted = { seconds: 0, rows: 0, statements: 0 };
  const place: DeploymentMap['place'] = async (trunk, files) => {
    const start = performance.now();
    await map.place(trunk, files);
    counted.seconds += (performance.now() - start) / 1000;
    counted.rows += files.length;
    counted.statements += 1;
  };
  await FileMap.open(path, true).close();
  const emptyFileMapBytes = await sizeWithLog(path);
  const fileMap = FileMap.open(path, true);
  const writer = new IndexWriter(fileMap);
  const { files, stored } = await simulateGateway(
    { ...site, idMaxAgeMs: 0, flushes: true },
    writer,
  );
  const publisher = new Publisher(
    { place, remove: map.remove.bind(map), retire: map.retire.bind(map) },
    fileMap.outbox!,
  );
  await publisher.publish(Number.POSITIVE_INFINITY);
  await fileMap.makeDurable();
  await fileMap.close();
  return {
    fileMapBytesPerFile: ((await sizeWithLog(path)) - emptyFileMapBytes) / files,
    mapBytesPerFile: ((await bytes()) - emptyBytes) / files,
    emptyFileMapBytes,
    emptyMapBytes: emptyBytes,
    mapRowsPerSecond: counted.rows / counted.seconds,
    statementsPerTrunk: counted.statements / stored,
  };
}

/** Writes what a gateway would write to its FileMap. */
class IndexWriter implements Observer {
  readonly #fileMap: FileMap;
  #batch: FileRow[] = [];

  constructor(fileMap: FileMap) {
    this.#fileMap = fileMap;
  }

  staged(row: FileRow): void {
    this.#batch.push(row);
    if (this.#batch.length >= BATCH_FILES) this.#applyBatch();
  }

  stored({ taskId, kind, rows, members, size, thin }: TrunkPlan, fileId: string): void {
    this.#applyBatch();
    const { segment, position } = rows.at(-1)!.local;
    const plan = { what: 'plan' as const, taskId, kind, size, members: packMembers(members) };
    const about = { taskId, kind, fileId, size, crc32: rows[0]!.crc32, files: rows.length };
    this.#fileMap.apply([plan], segment, position);
    this.#fileMap.apply([{ what: 'stored', ...about, file: undefined }], segment, position);
    const { id } = this.#fileMap.trunkByTask(taskId)!;
    for (let at = 0; at < members.length; at += CONFIRM_PAGE) {
      this.#fileMap.confirmMembers(id, members.slice(at, at + CONFIRM_PAGE));
    }
    const bytes = rows.reduce((sum, row) => sum + row.size, 0);
    this.#fileMap.finishTrunk(id, rows.length, bytes, { thin });
  }

  #applyBatch(): void {
    const last = this.#batch.at(-1);
    if (!last) return;
    const changes = this.#batch.map(({ local, ...row }) => ({
      ...row,
      what: 'file' as const,
      position: local.position,
      at: 'container' as const,
    }));
    this.#batch = [];
    this.#fileMap.apply(changes, last.local.segment, last.local.position + last.size);
  }
}
