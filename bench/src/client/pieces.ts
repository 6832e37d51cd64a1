import { FastdfsClient } from '@stevedore/fastdfs';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { makeFileSet } from '../harness/file-set.js';
import { NodeConnection, type Writing } from '../harness/node-connection.js';
import { median } from '../harness/statistics.js';
import { type Plan, SEED, SIZES } from './plan.js';
import { startServer } from './servers.js';

/**
 * What an upload costs a client that writes head and body apart with Nagle's algorithm on,
 * as the C client does: a system that delays the acknowledgement of the head adds 40 ms.
 * Uploads of all ways are made in turns, so that the disk is the same for all.
 */

export type Way = 'ours' | Writing;
export const WAYS: readonly Way[] = ['ours', 'together', 'apart'];
export const APART_TIMES = 'upload.c1.apart-times-ours';

const EXTENSION = 'bin';

export function piecesId(way: Way): string {
  return `upload.c1.${way}.ms`;
}

export async function measurePieces(context: BenchmarkContext, plan: Plan): Promise<void> {
  for (let run = 1; run <= plan.runs; run += 1) {
    context.progress(`uploads in pieces, run ${run} of ${plan.runs}`);
    await measure(context, plan);
  }
}

async function measure(context: BenchmarkContext, { piecesUploads }: Plan): Promise<void> {
  const { bytes } = SIZES[1];
  const [file] = makeFileSet({ seed: SEED, minBytes: bytes, maxBytes: bytes, totalBytes: bytes });
  const content = file!.bytes;
  await using server = await startServer(context, 'storage');
  const client = new FastdfsClient({ trackers: server.trackers, maxConnectionsPerAddress: 1 });
  const connections: NodeConnection[] = [];
  const open = async (port: number, writing?: Writing): Promise<NodeConnection> => {
    const connection = await NodeConnection.open(port, writing);
    connections.push(connection);
    return connection;
  };
  try {
    const { port } = await (await open(Number(server.trackers[0]!.split(':').at(-1)))).queryStore();
    const together = await open(port, 'together');
    const apart = await open(port, 'apart');
    const uploads: Readonly<Record<Way, () => PromiseLike<unknown>>> = {
      ours: () => client.upload(content, { extension: EXTENSION }),
      together: () => together.upload([content], content.length, EXTENSION),
      apart: () => apart.upload([content], content.length, EXTENSION),
    };
    const times: Readonly<Record<Way, number[]>> = { ours: [], together: [], apart: [] };
    for (let count = 0; count < piecesUploads; count += 1) {
      for (const way of WAYS) {
        const start = performance.now();
        await uploads[way]();
        times[way].push(performance.now() - start);
      }
    }
    for (const way of WAYS) context.figures.add(piecesId(way), 'ms', median(times[way]));
    context.figures.add(APART_TIMES, 'times', median(times.apart) / median(times.ours));
  } finally {
    for (const connection of connections) connection.close();
    await client.close();
  }
}
