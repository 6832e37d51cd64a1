import { UsageError } from '../harness/usage-error.js';

/** The servers named on the command line, `KIND=ADDRESS`, and what each acknowledges. */

export const KINDS = {
  'seaweedfs-filer': 'http://HOST:PORT[/DIRECTORY][?fsync=true]',
  'seaweedfs-volume': 'http://MASTER:PORT[?fsync=true]',
  s3: 'http://HOST:PORT/BUCKET, with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
  nginx: 'http://HOST:PORT[/DIRECTORY], where PUT is allowed (dav_methods)',
  fastdfs: 'TRACKER:PORT',
  'fastdfs-trunk': 'TRACKER:PORT of a cluster with use_trunk_file',
} as const;
export type Kind = keyof typeof KINDS;

export interface NamedServer {
  readonly kind: Kind;
  readonly address: string;
}

/** Throws UsageError. */
export function parseServer(text: string): NamedServer {
  const [, kind = '', address = ''] = /^([^=]*)=(.+)$/.exec(text) ?? [];
  if (Object.hasOwn(KINDS, kind)) return { kind: kind as Kind, address };
  const kinds = Object.entries(KINDS).map(([each, form]) => `  ${each}=${form}`);
  throw new UsageError(`--server ${text}: KIND=ADDRESS is needed, one of\n${kinds.join('\n')}`);
}

/** Undefined: no such cluster is named. */
export function trackersOf(kind: string, servers: readonly NamedServer[]): string[] | undefined {
  const named = servers.filter((each) => each.kind === kind).map(({ address }) => address);
  return named.length > 0 ? named : undefined;
}

/** What an upload has survived when it is answered. */
export function acknowledges({ kind, address }: NamedServer): string {
  if (kind === 's3') return 'what the server promises; MinIO: on its drives';
  const isSynced = kind.startsWith('seaweedfs') && new URL(address).searchParams.get('fsync');
  if (isSynced !== 'true') return "in the system's page cache";
  return kind === 'seaweedfs-filer'
    ? "on the disk; the filer's entry as its store has it"
    : 'on the disk';
}
