import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Gateway, startGateway } from '@stevedore/gateway';
import { drive } from '../harness/load.js';
import { serve } from '../harness/serve.js';

/** One gateway of a deployment, in a process of its own. */

export interface StartOptions {
  readonly directory: string;
  readonly trackers: readonly string[];
  readonly port: number;
  /** Undefined: a gateway by itself. */
  readonly map: string | undefined;
}

let gateway: Gateway | undefined;
const STORE_CONCURRENCY = 64;
const POLL_MS = 5;

async function published(): Promise<void> {
  while ((gateway?.store.stats().map?.pending ?? 0) > 0) await sleep(POLL_MS);
}

/** Merges nothing by itself: what is staged stays so until `merge`. */
const handlers = {
  async start({ directory, trackers, port, map }: StartOptions): Promise<void> {
    const url = `http://127.0.0.1:${port}`;
    const deployment = map === undefined ? {} : { map, peerUrl: url };
    gateway = await startGateway({
      ...{ directory, port, mergeMaxAge: '1h', trunkSize: '2GiB', ...deployment },
      trackers: trackers.join(','),
    });
  },
  /** New files of so many bytes. */
  async store({ files, bytes }: { readonly files: number; readonly bytes: number }): Promise<void> {
    await drive({ operations: files, concurrency: STORE_CONCURRENCY }, async () =>
      gateway?.store.put(randomBytes(bytes), { name: 'photo.jpg' }),
    );
  },
  /** Resolves once all files are merged and the map, if there is one, knows them. */
  async merge(): Promise<void> {
    await gateway?.store.flush();
    await published();
  },
  /** Resolves once the map has everything, but not before `ms`. */
  async publish(ms: number): Promise<void> {
    await sleep(ms);
    await published();
  },
};

export type GatewayHandlers = typeof handlers;

serve(handlers, () => gateway?.close());
