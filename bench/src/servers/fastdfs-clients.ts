import { startClient } from '../client/client-child.js';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { round, spread, table } from '../harness/markdown.js';
import type { NamedServer } from './kinds.js';
import { CONNECTIONS, type Plan, UPLOAD_BYTES } from './plan.js';

/** Named FastDFS clusters, asked by our client or by npm fdfs: 20 KB up and down. */

const KINDS = ['fdfs', 'fastdfs', 'fastdfs-trunk'];
const SEED = 18;

export async function measureClients(context: BenchmarkContext, plan: Plan): Promise<void> {
  const named = context.servers.filter(({ kind }) => KINDS.includes(kind));
  if (named.length === 0) return;
  for (let turn = 0; turn < plan.turns; turn += 1) {
    context.progress(`FastDFS clients, turn ${turn + 1}`);
    for (const server of turn % 2 === 0 ? named : named.toReversed()) {
      await measureOne(context, plan, server);
    }
  }
  show(context, named);
}

async function measureOne(
  { figures }: BenchmarkContext,
  { seconds }: Plan,
  { kind, address }: NamedServer,
): Promise<void> {
  await using child = await startClient(kind, [{ name: '20KB', bytes: UPLOAD_BYTES }]);
  for (const connections of CONNECTIONS.upload) {
    const client = kind === 'fdfs' ? 'fdfs' : 'stevedore';
    await child.call('open', { client, trackers: [address], connections });
    const load = { seconds, concurrency: connections };
    const up = await child.call('upload', { ...load, size: UPLOAD_BYTES });
    const down = await child.call('download', { ...load, seed: SEED });
    await child.call('close', undefined);
    for (const [what, result] of Object.entries({ up, down })) {
      const { operations, seconds: took, cpuSeconds, errors, firstError } = result;
      if (errors > 0) throw new Error(`${kind}: ${errors} calls failed, the first: ${firstError}`);
      const id = `${what}.${kind}.c${connections}`;
      figures.add(`${id}.rate`, 'requests/s', operations / took);
      figures.add(`${id}.client-cpu`, 'us', (cpuSeconds / operations) * 1e6);
    }
  }
}

function show({ figures, print }: BenchmarkContext, named: readonly NamedServer[]): void {
  const rows = CONNECTIONS.upload.flatMap((connections) =>
    named.map(({ kind }) => {
      const of = (what: string) => figures.summary(`${what}.${kind}.c${connections}.rate`);
      const cpu = (what: string) =>
        round(figures.summary(`${what}.${kind}.c${connections}.client-cpu`).median);
      return [
        `${kind}, ${connections}`,
        spread(of('up')),
        cpu('up'),
        spread(of('down')),
        cpu('down'),
      ];
    }),
  );
  const head = ['Cluster, connections', 'uploads/s', 'client, us', 'downloads/s', 'client, us'];
  print(`## FastDFS clusters\n\n${table(head, rows)}`);
}
