import { resolve } from 'node:path';
import { inspectCluster, inspectDeployment, readClusterSecrets } from '@stevedore/client/internal';
import { addressText } from '@stevedore/protocol';
import { type GatewayOptions, openOptions } from '../options.js';
import { checkSecretFiles, judgeAccess } from './access.js';
import { judgeCluster } from './cluster.js';
import { judgeDeployment } from './deployment.js';
import { checkRights, diskFacts, judgeRoom, judgeSync, measureSync } from './disk.js';
import { type Finding, warning } from './finding.js';

/**
 * Checks what a gateway with these options relies on and what no start would say, whether one runs
 * already or not. Stores one small file in the named cluster, and removes it. A check that fails is
 * a finding, and does not stop the others.
 */
export async function examine(
  options: GatewayOptions,
  configFile: string,
  config: Readonly<Record<string, unknown>>,
): Promise<readonly Finding[]> {
  const directory = resolve(options.directory);
  const findings: Finding[] = [judgeAccess(options)];
  const add = async (what: string, check: () => Promise<Finding | readonly Finding[]>) => {
    try {
      findings.push(...[await check()].flat());
    } catch (error) {
      const detail = `could not be examined: ${(error as Error).message}`;
      findings.push(warning(what, detail, 'examine it by hand'));
    }
  };
  await add('secrets', () => checkSecretFiles(options, configFile, config));
  await add('directory', () => checkRights(directory));
  if (findings.at(-1)?.verdict === 'ok') {
    await add('sync', async () => judgeSync(await measureSync(directory), options.durability));
    await add('room', async () => judgeRoom(await diskFacts(directory), options));
  }
  if (options.trackers.length > 0) {
    await add('trackers', async () => {
      const [secret] = await readClusterSecrets(options.clusterSecretFile);
      return judgeCluster(await inspectCluster(options.trackers, secret), Date.now());
    });
  }
  if (options.map !== '') {
    await add('deployment', async () => {
      const isRunning = await isGateway(options);
      const found = await inspectDeployment(openOptions(options), isRunning);
      return judgeDeployment(found, options, isRunning);
    });
  }
  return findings;
}

/** True if a gateway answers where one with these options would. */
async function isGateway({ host, port }: GatewayOptions): Promise<boolean> {
  const at = addressText(host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host, port);
  try {
    const signal = AbortSignal.timeout(2_000);
    const answer = await fetch(`http://${at}/health/live`, { signal });
    return ((await answer.json()) as { live?: unknown }).live === true;
  } catch {
    return false;
  }
}
