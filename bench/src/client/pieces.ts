import { FastdfsClient } from '@stevedore/fastdfs';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { Closing } from '../harness/closing.js';
import { median } from '../harness/figures.js';
import { randomPool } from '../harness/file-set.js';
import { NodeConnection, type Writing } from '../harness/node-connection.js';
import { start } from '../harness/processes.js';

const WAY_TITLES = {
  ours: "by Stevedore's client",
  together: 'head and body in one write, by a bare socket',
  apart: "head and body in a write each, Nagle's algorithm on, by a bare socket",
} as const;
type Way = keyof typeof WAY_TITLES;
const WAYS = Object.keys(WAY_TITLES) as Way[];
const EXTENSION = 'bin';
const FILE_BYTES = 20_000;
const SEED = 30;

/**
 * What an upload costs a client that writes head and body apart with Nagle's algorithm on,
 * as the C client does: a system that delays the acknowledgement of the head adds 40 ms.
 * Uploads of all ways are made in turns, so that the disk is the same for all.
 */
export async function measurePieces(
  { figures, workspace, runs, print, table }: BenchmarkContext,
  plan: { readonly runs: number; readonly piecesUploads: number },
): Promise<void> {
  const content = randomPool(SEED, FILE_BYTES);
  await runs('uploads in pieces', plan.runs, async () => {
    await using closing = new Closing();
    const tracker = await closing
      .use(start('harness/nodes'))
      .call('group', workspace.fresh('node'));
    const client = closing.use(
      new FastdfsClient({ trackers: [tracker], maxConnectionsPerAddress: 1 }),
    );
    const open = async (port: number, writing?: Writing) =>
      closing.use(await NodeConnection.open(port, writing));
    const { port } = await (await open(Number(tracker.split(':').at(-1)))).queryStore();
    const together = await open(port, 'together');
    const apart = await open(port, 'apart');
    const uploads: Readonly<Record<Way, () => PromiseLike<unknown>>> = {
      ours: () => client.upload(content, { extension: EXTENSION }),
      together: () => together.upload([content], content.length, EXTENSION),
      apart: () => apart.upload([content], content.length, EXTENSION),
    };
    const times: Readonly<Record<Way, number[]>> = { ours: [], together: [], apart: [] };
    for (let done = 0; done < plan.piecesUploads; done += 1) {
      for (const way of WAYS) {
        const begun = performance.now();
        await uploads[way]();
        times[way].push(performance.now() - begun);
      }
    }
    for (const way of WAYS) figures.add(`upload.c1.${way}.ms`, 'ms', median(times[way]));
    figures.addRatio('upload.c1.apart-times-ours', 'upload.c1.apart.ms', 'upload.c1.ours.ms');
  });
  print(
    `## Uploads in two pieces\n\n${plan.piecesUploads} uploads of 20 KB in each way, one at a time and in turns, against our storage on disk, synced; milliseconds of the median upload, median of the runs (least–greatest):`,
  );
  table('pieces', {
    head: 'Written',
    rows: WAYS.map((way) => [WAY_TITLES[way], `upload.c1.${way}`]),
    columns: [['ms', 'ms']],
  });
}
