import { stat } from 'node:fs/promises';
import type { GatewayOptions } from '../options.js';
import { type Finding, ok, problem, warning } from './finding.js';

/** Checks access: who reaches the gateway, what they may do, and who can read its secrets. */

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

/** Files that contain secrets, if the options name them: whether others can read them. */
export async function checkSecretFiles(
  { apiKeys, clusterSecretFile }: Pick<GatewayOptions, 'apiKeys' | 'clusterSecretFile'>,
  /** The file of options, with its content. */
  configFile: string,
  config: Readonly<Record<string, unknown>>,
): Promise<readonly Finding[]> {
  const isSecret = SECRET_OPTIONS.some((name) => config[name] !== undefined);
  const files = [
    ['API keys', apiKeys],
    ['cluster secret', clusterSecretFile],
    ['options file', isSecret ? configFile : ''],
  ] as const;
  const named = files.filter(([, path]) => path !== '');
  return Promise.all(named.map(([what, path]) => checkMode(what, path)));
}

async function checkMode(what: string, path: string): Promise<Finding> {
  const found = await stat(path).catch((error: Error) => error);
  if ('message' in found) return problem(what, found.message, 'no gateway starts without it');
  if ((found.mode & 0o077) === 0) return ok(what, `${path} is for its owner alone`);
  const may = (found.mode & 0o022) === 0 ? 'read' : 'change';
  return warning(what, `other users may ${may} ${path}`, `chmod 600 ${path}`);
}
