import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Gateway, type GatewayInput, startGateway } from '@stevedore/gateway';
import { drive, until } from '../harness/load.js';

/** One gateway of a deployment. It merges nothing by itself: what is staged stays so until `merge`. */

let gateway: Gateway | undefined;
const STORE_CONCURRENCY = 64;

const published = () =>
  until('the map has all files', () => (gateway?.store.stats().map?.pending ?? 0) === 0);

export async function start(options: GatewayInput): Promise<void> {
  gateway = await startGateway({ ...options, mergeMaxAge: '1h', trunkSize: '2GiB' });
}

/** New files of so many bytes. */
export async function store(operations: number, bytes: number): Promise<void> {
  await drive({ operations, concurrency: STORE_CONCURRENCY }, async () =>
    gateway?.store.put(randomBytes(bytes), { name: 'photo.jpg' }),
  );
}

/** Resolves once all files are merged and the map, if there is one, knows them. */
export async function merge(): Promise<void> {
  await gateway?.store.flush();
  await published();
}

/** Resolves once the map has everything, but not before `ms`. */
export async function publish(ms: number): Promise<void> {
  await sleep(ms);
  await published();
}

export const close = () => gateway?.close();
