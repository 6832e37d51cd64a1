import { crc32 } from 'node:zlib';
import { connect } from '@stevedore/client/connect';
import { drive } from '../harness/load.js';
import { serve } from '../harness/serve.js';

/** The load: requests spread over gateways, in a process of its own. */

export interface LoadOptions {
  readonly urls: readonly string[];
  readonly concurrency: number;
  /** To read, each once; none: uploads. */
  readonly keys: readonly string[];
  readonly uploads: number;
  readonly bytes: number;
}

const handlers = {
  /** Files a second. Other bytes than were stored fail it. */
  async run({ urls, concurrency, keys, uploads, bytes }: LoadOptions): Promise<number> {
    const stores = urls.map((url) => connect({ url, connections: concurrency, retryTime: 0 }));
    const operations = keys.length > 0 ? keys.length : uploads;
    const body = Buffer.alloc(bytes, 'd');
    const { seconds } = await drive({ operations, concurrency }, async (index) => {
      const at = index % urls.length;
      if (keys.length > 0) await read(`${urls[at]}/files/${keys[index]}`);
      else await stores[at]?.put(body, { name: 'photo.jpg' });
    });
    await Promise.all(stores.map((store) => store.close()));
    return operations / seconds;
  },
};

/** One request; the SDK's `get` makes two. The entity tag has the CRC-32. */
async function read(url: string): Promise<void> {
  const answer = await fetch(url);
  const bytes = Buffer.from(await answer.arrayBuffer());
  const sum = crc32(bytes).toString(16).padStart(8, '0');
  if (answer.status === 200 && answer.headers.get('etag')?.includes(`"${sum}-`)) return;
  throw new Error(`${url} answered ${answer.status} with ${bytes.length} bytes`);
}

export type LoadHandlers = typeof handlers;

serve(handlers);
