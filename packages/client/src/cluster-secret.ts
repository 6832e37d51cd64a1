import { readFile } from 'node:fs/promises';
import { parseSecrets, secretsProblem } from '@stevedore/protocol';
import { invalidOption } from './options.js';

/**
 * The secrets of a cluster, from a file with one a line; lines that begin with # are
 * remarks. None for no file. Rejects with StoreError `invalid_option`.
 */
export async function readClusterSecrets(path: string): Promise<readonly string[]> {
  if (path === '') return [];
  const text = await readFile(path, 'utf8').catch((error: Error) => {
    throw invalidOption(`the file of the cluster's secret cannot be read: ${error.message}`);
  });
  const secrets = parseSecrets(text);
  const problem = secretsProblem(secrets);
  if (problem !== undefined) throw invalidOption(`in ${path} ${problem}`);
  return secrets;
}
