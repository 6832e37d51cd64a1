import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  DirectoryLock,
  inspectCluster,
  inspectDeployment,
  readClusterSecrets,
} from '@stevedore/client/internal';
import { addressText } from '@stevedore/protocol';
import type { GatewayOptions } from '../options.js';
import { defaultLimits, openOptions } from '../options.js';
import { checkAccessFiles, checkConfigFile, judgeAccess } from './access.js';
import { judgeCluster } from './cluster.js';
import { judgeDeployment } from './deployment.js';
import {
  checkOwnClock,
  checkRights,
  diskFacts,
  judgeLock,
  judgeRoom,
  judgeSync,
  measureSync,
} from './disk.js';
import { attempt, type Finding, ok } from './finding.js';
import {
  checkSqlite,
  handleFacts,
  isGateway,
  judgeHandles,
  judgeNode,
  judgePort,
  tryPort,
} from './system.js';

export { attempt, checkConfigFile };

/**
 * Checks everything that a gateway with these options relies on, whether one runs already or not.
 * Stores one small file in the named cluster, and removes it.
 */
export async function examine(options: GatewayOptions): Promise<readonly Finding[]> {
  const directory = resolve(options.directory);
  const sqlite = checkSqlite();
  const findings: Finding[] = [judgeNode(process.version), sqlite, judgeAccess(options)];
  const add = async (what: string, check: () => Promise<Finding | readonly Finding[]>) => {
    findings.push(...(await attempt(what, check)));
  };
  findings.push(...(await checkAccessFiles(options)));
  await add('directory', () => checkRights(directory));
  const writable = findings.at(-1)?.verdict === 'ok';
  if (writable) {
    // The lock is one of SQLite's.
    if (sqlite.verdict === 'ok') await add('lock', async () => checkLock(directory));
    await add('sync', async () => judgeSync(await measureSync(directory), options.durability));
    await add('room', async () => judgeRoom(await diskFacts(directory), options));
    await add('clock', () => checkOwnClock(directory, Date.now()));
  }
  await add('file handles', async () =>
    judgeHandles(await handleFacts(), defaultLimits.maxConnections),
  );
  await add('ports', () => checkPorts(options));
  if (options.trackers.length > 0) {
    await add('trackers', async () => {
      const [secret] = await readClusterSecrets(options.clusterSecretFile);
      return judgeCluster(await inspectCluster(options.trackers, secret), Date.now());
    });
  }
  if (options.map !== '') {
    await add('deployment', async () => {
      const isRunning = await isGateway(ownUrl(options));
      return judgeDeployment(
        await inspectDeployment(openOptions(options), isRunning),
        options,
        isRunning,
      );
    });
  }
  return findings;
}

/** Where a gateway with these options answers this machine. */
function ownUrl({ host, port }: GatewayOptions): string {
  return `http://${addressText(host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host, port)}`;
}

function checkLock(directory: string): Finding {
  // Taking it would make the file, which another user's gateway could not open.
  if (!existsSync(join(directory, 'lock'))) return judgeLock(undefined);
  try {
    DirectoryLock.acquire(directory).release();
    return judgeLock(undefined);
  } catch (error) {
    return judgeLock(error);
  }
}

/** A port that a running gateway uses is fine. */
async function checkPorts(options: GatewayOptions): Promise<readonly Finding[]> {
  const { host, port, trackers, trackerPort, storagePort } = options;
  const wanted = [
    { what: 'port', at: host, port },
    ...(trackers.length > 0
      ? []
      : [
          { what: 'tracker port', at: '127.0.0.1', port: trackerPort },
          { what: 'storage port', at: '127.0.0.1', port: storagePort },
        ]),
  ];
  const ours = port !== 0 && (await isGateway(ownUrl(options)));
  return Promise.all(
    wanted.map(async ({ what, at, port: number }) => {
      if (number === 0) return ok(what, 'a free one is taken');
      return judgePort(what, `${at}:${number}`, await tryPort(at, number), ours);
    }),
  );
}
