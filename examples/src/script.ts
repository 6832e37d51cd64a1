// Run: npm run script (in examples/, after `npm start` or `npm test` has built it once)
//
// A plain Node script that keeps files with the SDK: no server, no cluster. `open`
// without trackers starts a FastDFS node of its own inside this process.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from '@stevedore/client';

const directory = await mkdtemp(join(tmpdir(), 'stevedore-example-'));
{
  await using store = await open({ directory });

  // Three files of one page: they will lie side by side in the trunk.
  const page = { group: 'page-1' };
  const receipts = await Promise.all([
    store.put('<h1>Hello</h1>', { name: 'index.html', type: 'text/html', ...page }),
    store.put('h1 { color: teal }', { name: 'style.css', type: 'text/css', ...page }),
    store.put(Buffer.alloc(20_000, 'pixels'), { name: 'photo.jpg', type: 'image/jpeg', ...page }),
  ]);
  for (const { key, name, size } of receipts)
    console.log(`safe on disk: ${key}  ${name}  ${size} bytes`);

  // Readable at once, long before FastDFS has it.
  const file = await store.get(receipts[0]!.key);
  console.log(`read back:    ${await file.bytes()}`);

  // Files get their ids by themselves, within ten minutes; here we do not want to wait.
  await store.flush();
  for (const { key } of receipts) console.log(`FastDFS id:   ${await store.settled(key)}`);

  await store.delete(receipts[1]!.key);
  console.log('deleted:      style.css');
}
await rm(directory, { recursive: true });
