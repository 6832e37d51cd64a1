import { FastdfsClient } from '@stevedore/fastdfs';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { makeFileSet } from '../harness/file-set.js';
import { NodeConnection, type Writing } from '../harness/node-connection.js';
import { Nodes } from '../harness/nodes.js';
import { median } from '../harness/statistics.js';
import { type Plan, SEED, SIZES } from './plan.js';

const WAY_TITLES = {
  ours: "by Stevedore's client",
  together: 'head and body in one write, by a bare socket',
  apart: "head and body in a write each, Nagle's algorithm on, by a bare socket",
} as const;
type Way = keyof typeof WAY_TITLES;
const WAYS = Object.keys(WAY_TITLES) as Way[];
const EXTENSION = 'bin';

/**
 * What an upload costs a client that writes head and body apart with Nagle's algorithm on,
 * as the C client does: a system that delays the acknowledgement of the head adds 40 ms.
 * Uploads of all ways are made in turns, so that the disk is the same for all.
 */
export async function measurePieces(context: BenchmarkContext, plan: Plan): Promise<void> {
  for (let run = 1; run <= plan.runs; run += 1) {
    context.progress(`uploads in pieces, run ${run} of ${plan.runs}`);
    await measurePiecesOnce(context, plan);
  }
  context.print(
    `## Uploads in two pieces\n\n${plan.piecesUploads} uploads of 20 KB in each way, one at a time and in turns, against our storage on disk, synced; milliseconds of the median upload, median of the runs (least–greatest):`,
  );
  context.table('pieces', {
    head: 'Written',
    rows: WAYS.map((way) => [WAY_TITLES[way], `upload.c1.${way}`]),
    columns: [['ms', 'ms']],
  });
}

async function measurePiecesOnce(context: BenchmarkContext, { piecesUploads }: Plan) {
  const { figures, workspace } = context;
  const bytes = SIZES['20KB'];
  const [file] = makeFileSet({ seed: SEED, minBytes: bytes, maxBytes: bytes, totalBytes: bytes });
  const content = file!.bytes;
  await using nodes = new Nodes();
  const tracker = await nodes.cluster(workspace.fresh('node'));
  const client = new FastdfsClient({ trackers: [tracker], maxConnectionsPerAddress: 1 });
  const connections: NodeConnection[] = [];
  const open = async (port: number, writing?: Writing): Promise<NodeConnection> => {
    const connection = await NodeConnection.open(port, writing);
    connections.push(connection);
    return connection;
  };
  try {
    const { port } = await (await open(Number(tracker.split(':').at(-1)))).queryStore();
    const together = await open(port, 'together');
    const apart = await open(port, 'apart');
    const uploads: Readonly<Record<Way, () => PromiseLike<unknown>>> = {
      ours: () => client.upload(content, { extension: EXTENSION }),
      together: () => together.upload([content], content.length, EXTENSION),
      apart: () => apart.upload([content], content.length, EXTENSION),
    };
    const times: Readonly<Record<Way, number[]>> = { ours: [], together: [], apart: [] };
    for (let done = 0; done < piecesUploads; done += 1) {
      for (const way of WAYS) {
        const start = performance.now();
        await uploads[way]();
        times[way].push(performance.now() - start);
      }
    }
    for (const way of WAYS) figures.add(`upload.c1.${way}.ms`, 'ms', median(times[way]));
    figures.addRatio('upload.c1.apart-times-ours', 'upload.c1.apart.ms', 'upload.c1.ours.ms');
  } finally {
    for (const connection of connections) connection.close();
    await client.close();
  }
}
