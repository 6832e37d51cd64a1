import { type Storage, startStorage } from '@stevedore/node';
import { serve } from '../harness/serve.js';

/** A member of a group in a process of its own. */

export interface MemberOptions {
  readonly host: string;
  readonly port: number;
  readonly directory: string;
  readonly tracker: string;
  readonly writeCopies: number;
}

export type MemberHandlers = {
  /** Resolves with its port once a tracker counts it as active. */
  readonly start: (options: MemberOptions) => Promise<number>;
  /** Bytes of its log that other members have not acknowledged; undefined while one is away. */
  readonly lagBytes: () => number | undefined;
};

let storage: Storage | undefined;

async function start(options: MemberOptions): Promise<number> {
  const { host, port, directory, tracker, writeCopies } = options;
  storage = await startStorage({
    ...{ host, port, writeCopies },
    storePaths: [directory],
    trackers: [tracker],
    reconnectDelayMs: 50,
    beatIntervalMs: 200,
    onError: () => {},
  });
  await storage.active();
  return storage.port;
}

function lagBytes(): number | undefined {
  const members = storage?.replicationStatus().members ?? [];
  if (!members.every(({ isConnected }) => isConnected)) return undefined;
  return members.reduce((sum, each) => sum + each.lagBytes, 0);
}

serve({ start, lagBytes } satisfies MemberHandlers, async () => {
  await storage?.close();
});
