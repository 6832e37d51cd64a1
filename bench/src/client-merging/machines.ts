import { FastdfsClient } from '@stevedore/fastdfs';
import { withCpuOf } from '../harness/child.js';
import type { Closing } from '../harness/closing.js';
import { cpuSecondsOf, listenersOf } from '../harness/process-cpu.js';
import { type Running, start } from '../harness/processes.js';
import type { Wire } from '../harness/wire.js';

/** Web server and storages, as if they were machines of their own: a wire between them, CPU apart. */

/** Of a cluster on this machine: its trackers and storages. */
async function processesOf(trackers: readonly string[]): Promise<readonly number[]> {
  const client = new FastdfsClient({ trackers });
  try {
    const ports = trackers.map((address) => Number(address.split(':').at(-1)));
    for (const { name } of await client.listGroups()) {
      for (const { storagePort } of await client.listStorages(name)) ports.push(storagePort);
    }
    return [...new Set(ports)].flatMap((port) => listenersOf('127.0.0.1', port));
  } finally {
    await client.close();
  }
}

/** The result, and the CPU that storages took meanwhile; undefined where the system does not say. */
export async function withStorageCpu<T>(
  node: Running<'harness/nodes'> | undefined,
  trackers: readonly string[],
  work: () => Promise<T>,
): Promise<readonly [result: T, cpuSeconds: number | undefined]> {
  if (node) return withCpuOf(node, work);
  const processes = await processesOf(trackers);
  const before = cpuSecondsOf(processes);
  const result = await work();
  const after = cpuSecondsOf(processes);
  return [result, before === undefined || after === undefined ? undefined : after - before];
}

/** A web server that reaches others over the wire, if there is one. Ends with `closing`. */
export async function startWebServer(
  closing: Closing,
  wire: Wire | undefined,
): Promise<Running<'client/storing'>> {
  // First: it is the last to end.
  const relay = wire && closing.use(start('harness/relay'));
  const webServer = closing.use(start('client/storing'));
  if (relay) await webServer.call('useWire', await relay.call('start', wire));
  return webServer;
}
