import aws4 from 'aws4';
import { UsageError } from '../harness/usage-error.js';
import type { Target, UploadTarget } from './content.js';
import type { NamedServer } from './kinds.js';

/** How each HTTP server names the files that are uploaded to it. */

export interface Place {
  readonly put: string;
  readonly get: string;
}

export interface Adapter {
  readonly target: Target;
  readonly method: UploadTarget['method'];
  /** Where so many new files go. */
  places(count: number): Promise<readonly Place[]>;
}

const PRESIGNED_SECONDS = 3600;

/** Undefined for those that are not asked over HTTP. */
export function openAdapter({ kind, address }: NamedServer): Adapter | undefined {
  switch (kind) {
    case 'seaweedfs-volume':
      return seaweedVolume(new URL(address));
    case 's3':
      return s3(new URL(address));
    case 'nginx':
    case 'seaweedfs-filer':
      return namedFiles(new URL(address));
    default:
      return undefined;
  }
}

function targetAt({ hostname, port }: URL): Target {
  return { host: hostname, port: Number(port || 80), headers: {} };
}

/** A new name for each file, in a directory of this run. */
function namesIn(directory: string): () => string {
  const run = Date.now().toString(36);
  let names = 0;
  return () => {
    names += 1;
    return `${directory.replace(/\/*$/, '')}/stevedore-${run}-${names}.gif`;
  };
}

function namedFiles(url: URL): Adapter {
  const name = namesIn(url.pathname);
  const place = () => {
    const path = name();
    return { put: `${path}${url.search}`, get: path };
  };
  const places = async (count: number) => Array.from({ length: count }, place);
  return { target: targetAt(url), method: 'PUT', places };
}

/** The master gives out one id for all of them: the first as it is, the others by number. */
function seaweedVolume(master: URL): Adapter {
  let target: Target | undefined;
  return {
    get target() {
      if (!target) throw new Error('the master was not asked yet');
      return target;
    },
    method: 'POST',
    async places(count) {
      const answer = await fetch(new URL(`/dir/assign?count=${count}`, master));
      const { fid, url, error } = (await answer.json()) as Record<string, string | undefined>;
      if (!fid || !url) throw new Error(`the master of SeaweedFS assigns nothing: ${error}`);
      target = targetAt(new URL(`http://${url}`));
      return Array.from({ length: count }, (_, index) => {
        const path = index === 0 ? `/${fid}` : `/${fid}_${index}`;
        return { put: `${path}${master.search}`, get: path };
      });
    },
  };
}

function s3(url: URL): Adapter {
  const accessKeyId = process.env.AWS_ACCESS_KEY_ID;
  const secretAccessKey = process.env.AWS_SECRET_ACCESS_KEY;
  if (!accessKeyId || !secretAccessKey) {
    throw new UsageError('--server s3=…: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are needed');
  }
  const name = namesIn(url.pathname);
  const presigned = (method: string, path: string): string => {
    const about = { service: 's3', signQuery: true, host: url.host, method };
    const { path: signed } = aws4.sign(
      { ...about, path: `${path}?X-Amz-Expires=${PRESIGNED_SECONDS}` },
      { accessKeyId, secretAccessKey },
    );
    return signed!;
  };
  const place = () => {
    const path = name();
    return { put: presigned('PUT', path), get: presigned('GET', path) };
  };
  const places = async (count: number) => Array.from({ length: count }, place);
  return { target: targetAt(url), method: 'PUT', places };
}
