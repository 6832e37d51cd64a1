import { startClient } from '../client/client.js';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { inTurn } from '../harness/load.js';
import { middle } from '../harness/markdown.js';
import { UPLOAD_BYTES } from './content.js';
import type { NamedServer } from './kinds.js';
import { type Plan, SCENARIOS } from './scenarios.js';

/** Named FastDFS clusters, asked by our client or by npm fdfs: 20 KB up and down. */

const KINDS = ['fdfs', 'fastdfs', 'fastdfs-trunk'];
const SEED = 18;
const { connections: CONNECTIONS } = SCENARIOS.upload;

export async function measureClients(context: BenchmarkContext, plan: Plan): Promise<void> {
  const named = context.servers.filter(({ kind }) => KINDS.includes(kind));
  if (named.length === 0) return;
  for (let turn = 0; turn < plan.turns; turn += 1) {
    context.progress(`FastDFS clients, turn ${turn + 1}`);
    for (const server of inTurn(turn, named)) await measureOne(context, plan, server);
  }
  context.print('## FastDFS clusters');
  context.table('clients', {
    head: 'Cluster, connections',
    rows: CONNECTIONS.flatMap((count) =>
      named.map(({ kind }) => [`${kind}, ${count}`, `${kind}.c${count}`] as const),
    ),
    columns: [
      ['uploads/s', 'up.rate'],
      ['client, us', 'up.cpu', middle],
      ['downloads/s', 'down.rate'],
      ['client, us', 'down.cpu', middle],
    ],
  });
}

async function measureOne(
  { figures }: BenchmarkContext,
  { seconds }: Plan,
  { kind, address }: NamedServer,
): Promise<void> {
  await using child = await startClient([UPLOAD_BYTES]);
  for (const connections of CONNECTIONS) {
    const client = kind === 'fdfs' ? 'fdfs' : 'stevedore';
    await child.call('open', { client, trackers: [address], connections });
    const load = { seconds, concurrency: connections };
    const up = await child.call('upload', { ...load, size: UPLOAD_BYTES });
    const down = await child.call('download', { ...load, seed: SEED });
    await child.call('close');
    for (const [what, result] of Object.entries({ up, down })) {
      const { operations, errors, firstError } = result;
      if (errors > 0) throw new Error(`${kind}: ${errors} calls failed, the first: ${firstError}`);
      figures.addAll(`${kind}.c${connections}.${what}`, {
        rate: [operations / result.seconds, 'requests/s'],
        cpu: [(result.cpuSeconds / operations) * 1e6, 'us'],
      });
    }
  }
}
