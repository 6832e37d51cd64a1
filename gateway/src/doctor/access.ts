import { stat } from 'node:fs/promises';
import { readClusterSecrets } from '@stevedore/client/internal';
import { readKeyFile } from '../access/api-keys.js';
import { PolicyFile } from '../access/policies.js';
import type { GatewayOptions } from '../options.js';
import { type Finding, ok, problem, warning } from './finding.js';

/** Checks access: who reaches the gateway, what they may do, and the files that grant it. */

/** Options that contain a secret itself, not the name of a file with one. */
const SECRET_OPTIONS = ['urlSecret', 'antiLeechSecret'];
const LOOPBACK = /^(?:127\.\d+\.\d+\.\d+|::1|localhost)$/;

export function judgeAccess({
  host,
  apiKeys,
  urlSecret,
}: Pick<GatewayOptions, 'host' | 'apiKeys' | 'urlSecret'>): Finding {
  if (LOOPBACK.test(host)) return ok('access', `only this machine reaches ${host}`);
  if (apiKeys === '') {
    return warning(
      'access',
      `anyone who reaches ${host} may upload, and delete any file whose key they know`,
      'set apiKeys, put a proxy with authentication in front, or listen on 127.0.0.1',
    );
  }
  const reads = urlSecret.length > 0 ? 'reads need a signed URL' : 'who knows a key may read';
  return ok('access', `uploads and deletes need an API key; ${reads}`);
}

export async function checkAccessFiles(
  options: Pick<GatewayOptions, 'apiKeys' | 'policies' | 'clusterSecretFile'>,
): Promise<readonly Finding[]> {
  const { apiKeys, policies, clusterSecretFile } = options;
  const findings: Finding[] = [];
  if (apiKeys !== '') {
    findings.push(await checkFile('API keys', apiKeys, async () => judgeKeys(apiKeys)));
  }
  if (policies !== '') {
    findings.push(
      await checkFile('policies', policies, async () => {
        const opening = PolicyFile.open({ path: policies, onError: () => undefined });
        const { file, current } = await opening;
        file.close();
        return ok('policies', `${Object.keys(current).length} in ${policies}`);
      }),
    );
  }
  if (clusterSecretFile !== '') {
    findings.push(
      await checkFile('cluster secret', clusterSecretFile, () => judgeSecret(clusterSecretFile)),
    );
  }
  return findings;
}

/** The file of options, if one of them is a secret; empty if none is. */
export async function checkConfigFile(
  path: string,
  options: Readonly<Record<string, unknown>>,
): Promise<readonly Finding[]> {
  const secrets = SECRET_OPTIONS.filter((name) => options[name] !== undefined);
  if (secrets.length === 0) return [];
  const what = 'options file';
  const shared = judgeMode(what, path, (await stat(path)).mode);
  return [shared ?? ok(what, `${secrets.join(' and ')} in ${path}, for its owner alone`)];
}

async function judgeSecret(path: string): Promise<Finding> {
  await readClusterSecrets(path);
  const shared = judgeMode('cluster secret', path, (await stat(path)).mode);
  return shared ?? ok('cluster secret', `in ${path}, for its owner alone`);
}

/** Undefined if only its owner can read the file. */
function judgeMode(what: string, path: string, mode: number): Finding | undefined {
  if ((mode & 0o077) === 0) return undefined;
  const may = (mode & 0o022) === 0 ? 'read' : 'change';
  return warning(what, `other users may ${may} ${path}`, `chmod 600 ${path}`);
}

async function judgeKeys(path: string): Promise<Finding> {
  // A gateway needs the file; `keys add` creates it.
  const { mode } = await stat(path);
  const keys = await readKeyFile(path);
  if (keys.length > 0)
    return judgeMode('API keys', path, mode) ?? ok('API keys', `${keys.length} in ${path}`);
  return warning('API keys', `${path} has none`, 'make one with `stevedore keys add NAME`');
}

async function checkFile(
  what: string,
  path: string,
  check: () => Promise<Finding>,
): Promise<Finding> {
  try {
    return await check();
  } catch (error) {
    return problem(
      what,
      `${path}: ${(error as Error).message}`,
      'no gateway starts with it: correct it',
    );
  }
}
