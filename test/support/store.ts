import { type FileStore, type OpenOptions, open, type Store } from '@stevedore/client';
import { connect } from '@stevedore/client/connect';
import type { Gateway } from '@stevedore/gateway';
import { type GatewayInput, startGateway } from '../../gateway/dist/start.js';
import { until } from './staging.js';
import { ofTest, temporaryFolder } from './temporary.js';

/** Stores with small sizes over an embedded node, closed when the test ends. */

export const SMALL = {
  ...{ trunkSize: '1MiB', smallFileLimit: '256KiB', maxFileSize: '8MiB' },
  // Files have their ids as soon as they are merged.
  idMaxAge: 0,
} as const;

export async function openStore(options: OpenOptions = {}, atTheEnd = ofTest): Promise<FileStore> {
  const store = await open({ directory: temporaryFolder(atTheEnd), ...SMALL, ...options });
  atTheEnd(() => store.close());
  return store;
}

export async function openGateway(options: GatewayInput = {}, atTheEnd = ofTest): Promise<Gateway> {
  const gateway = await startGateway({
    ...{ directory: temporaryFolder(atTheEnd), port: 0, trackerPort: 0, storagePort: 0 },
    ...{ logLevel: 'silent', ...SMALL, ...options },
  });
  atTheEnd(() => gateway.close());
  return gateway;
}

export interface Opened {
  readonly store: Store;
  /** The one that stages its files. */
  readonly behind: FileStore;
}

/** Every kind of store: what an app may rely on is true of each. */
export const stores = [
  {
    name: 'open()',
    opened: async (options?: OpenOptions, atTheEnd = ofTest): Promise<Opened> => {
      const store = await openStore(options, atTheEnd);
      return { store, behind: store };
    },
  },
  {
    name: 'connect()',
    opened: async (options?: OpenOptions, atTheEnd = ofTest): Promise<Opened> => {
      const gateway = await openGateway(options as GatewayInput, atTheEnd);
      const store = connect({ url: gateway.url });
      atTheEnd(() => store.close());
      return { store, behind: gateway.store };
    },
  },
];

/**
 * With no bytes of its files on this disk, if it retains none: the newest segment stays in any
 * case, and is one of another file then.
 */
export async function emptied(store: FileStore): Promise<FileStore> {
  await store.put('something else');
  await store.flush();
  await until(() => store.stats().containerBytes < 5000);
  return store;
}
