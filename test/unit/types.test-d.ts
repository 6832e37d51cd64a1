import { open } from '@stevedore/client';
import { connect } from '@stevedore/client/connect';
import { download, upload } from '@stevedore/middleware/express';
import { Pictures } from '@stevedore/pictures';

/** What must compile in an app, and what must not: the compiler is the test. */

export async function app(): Promise<void> {
  const store = await open({ trunkSize: '64MiB', mergeMaxAge: 60_000, durability: 'os' });
  await open({ trackers: ['10.0.0.1:22122'], idMaxAge: '1.5h', retain: 0, cacheFilter: true });
  // @ts-expect-error sync or os
  await open({ durability: 'snyc' });
  // @ts-expect-error a number, or a size with its unit
  await open({ trunkSize: 'many' });
  // @ts-expect-error no unit of sizes
  await open({ trunkSize: '64MB' });
  // @ts-expect-error a number, or a duration with its unit
  await open({ mergeMaxAge: '60' });
  // @ts-expect-error a number
  await open({ trackerPort: '22122' });
  // @ts-expect-error true or false
  await open({ cacheFilter: 'on' });
  // @ts-expect-error a list
  await open({ trackers: '10.0.0.1:22122' });
  // @ts-expect-error no such option
  await open({ trunksize: '64MiB' });

  const remote = connect({ url: 'http://127.0.0.1:8080', answerTimeout: '30s', connections: 8 });
  // @ts-expect-error a number, or a duration with its unit
  connect({ answerTimeout: 'soon' });
  // @ts-expect-error text
  connect({ url: 8080 });
  // @ts-expect-error no option of connect()
  connect({ directory: '/tmp' });

  upload(store, { types: ['image/*'], maxFileBytes: 2 ** 20, durability: 'os' });
  // @ts-expect-error a list
  upload(store, { types: 'image/*' });
  // @ts-expect-error sync or os
  upload(store, { durability: 'none' });
  // @ts-expect-error a number of bytes
  upload(store, { maxFileBytes: '1MiB' });
  download(store, { parameter: 'id', private: true, resourcePolicy: 'cross-origin' });
  // @ts-expect-error same-origin, same-site or cross-origin
  download(store, { resourcePolicy: 'anywhere' });
  // @ts-expect-error an upload's rules are none of a download's
  download(store, { policy: {} });

  new Pictures({ store: remote, sizes: ['320', 'x200', '640x480'], processes: 1 });
  // @ts-expect-error a list of sizes
  new Pictures({ store, sizes: '320' });
  // @ts-expect-error milliseconds
  new Pictures({ store, sizes: [], timeoutMs: '10s' });

  await store.put('text', { name: 'a.txt', group: 'page-7', durability: 'os', mode: 'direct' });
  // @ts-expect-error sync or os
  await store.put('text', { durability: 'never' });
  // @ts-expect-error staged or direct
  await store.put('text', { mode: 'fast' });
}
