import { readClusterSecrets } from '@stevedore/client';
import type { AccessOptions, WithoutSecret } from '@stevedore/wire';
import { UsageError } from './usage.js';

/** Who may use the port of a tracker or a storage, as their flags say. */
export async function nodeAccess(options: {
  readonly clusterSecretFile: string;
  readonly withoutSecret: WithoutSecret;
}): Promise<AccessOptions> {
  const { clusterSecretFile, withoutSecret } = options;
  const secrets = await readClusterSecrets(clusterSecretFile);
  if (secrets.length > 0) return { secrets, withoutSecret };
  if (withoutSecret === 'nothing') return {};
  throw new UsageError('--without-secret goes with --cluster-secret-file only');
}
